"""The processes of one app: which are started, drained, restarted, replaced, and when to give up.

```
            start                ready                  drain
  vacancy ────────▶ starting ────────▶ ready ────────▶ draining ────────▶ gone
     ▲                  │                │                  │
     └──── a delay ─────┴──── it died ───┘                  └─ too slow: killed
```

The first child is started alone: an app that cannot start says so once, with the exit code that one
process would have. A child that died leaves a vacancy, which is filled after a delay that grows
with each death in a row. If children die at once again and again, the parent gives up.

A reload replaces the children one by one: a successor is started, and when it is ready the child
that it replaces is drained. The next successor follows when that child has ended, so that there is
never more than one process too many. A successor that dies before it is ready ends the reload; the
other children stay.

`Children` is what the parent knows. The functions `ready`, `ended`, `stop` and `reload` enter what
has happened, and `decide` returns what to do.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import count
from typing import TypeAlias

from msgspec import Struct, structs

FIRST_DELAY_SECONDS = 0.5
"""Seconds until a child that died is restarted, unless it lived for long."""

DELAY_SECONDS_MAX = 30.0
"""Maximum seconds until a child that died is restarted."""

STEADY_SECONDS = 60.0
"""Seconds of being ready after which a child has lived for long: it is restarted at once."""

EARLY_SECONDS = 5.0
"""Seconds of being ready within which a child dies at once."""

EARLY_DEATHS_MAX = 5
"""Number of deaths at once, in a row, after which the parent gives up."""

KILL_SECONDS = 20.0
"""Seconds a child may take to exit beyond those for its handlers."""

EXIT_FAILED = 1
ENDED_BY_SIGTERM = -15


class Phase(Enum):
    """How far a child is."""

    STARTING = auto()
    READY = auto()
    DRAINING = auto()


class Child(Struct, frozen=True, kw_only=True):
    """One process. `number` is unique among those that live; `since` is when its phase began.
    `deaths` and `early_deaths` in a row came before it. `replaces` is the number of the child that
    it replaces in a reload. Once it drains it is killed at `kill_at`."""

    number: int
    since: float
    phase: Phase = Phase.STARTING
    deaths: int = 0
    early_deaths: int = 0
    replaces: int | None = None
    kill_at: float | None = None
    is_hurried: bool = False
    is_killed: bool = False


class Vacancy(Struct, frozen=True):
    """A child that is to be started at a time."""

    at: float
    deaths: int = 0
    early_deaths: int = 0


class Start(Struct, frozen=True):
    """Start a child with this number."""

    number: int


class Drain(Struct, frozen=True):
    """Let a child finish its handlers and exit."""

    number: int


class Hurry(Struct, frozen=True):
    """Cancel the handlers of a child that drains."""

    number: int


class Kill(Struct, frozen=True):
    """Kill a child."""

    number: int


class Report(Enum):
    """Notify the operator."""

    RELOADED = auto()
    NOT_RELOADED = auto()
    GAVE_UP = auto()


Action: TypeAlias = Start | Drain | Hurry | Kill | Report


class Children(Struct, frozen=True, kw_only=True):
    """All processes of an app, as their parent knows them.

    `wanted` children shall run. `to_replace` are the numbers that a reload has still to replace;
    None without a reload. `exit_code` is set when all shall end."""

    wanted: int
    drain_seconds: float
    all: tuple[Child, ...] = ()
    vacancies: tuple[Vacancy, ...] = ()
    to_replace: tuple[int, ...] | None = None
    has_started: bool = False
    hurries: bool = False
    exit_code: int | None = None
    reports: tuple[Report, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether all have ended that shall end."""
        return self.exit_code is not None and not self.all

    @property
    def next_at(self) -> float | None:
        """When to decide again if nothing happens."""
        times = [vacancy.at for vacancy in self.vacancies]
        times += [
            child.kill_at for child in self.all if child.kill_at is not None and not child.is_killed
        ]
        return min(times, default=None)

    def get(self, number: int) -> Child | None:
        """The child with this number, if it lives."""
        return next((child for child in self.all if child.number == number), None)


def restart_delay_seconds(deaths: int) -> float:
    """Seconds until a child is restarted after so many deaths in a row."""
    if deaths == 0:
        return 0.0
    return min(FIRST_DELAY_SECONDS * 2.0 ** min(deaths - 1, 30), DELAY_SECONDS_MAX)


# What has happened


def ready(children: Children, number: int, now: float) -> Children:
    """A child handles messages."""
    child = children.get(number)
    if child is None or child.phase is not Phase.STARTING:
        return children
    children = _changed(children, structs.replace(child, phase=Phase.READY, since=now))
    return structs.replace(children, has_started=True)


def ended(children: Children, number: int, code: int, now: float) -> Children:
    """A child has exited, with a negative code if by a signal."""
    child = children.get(number)
    assert child is not None
    children, has_successor = _without(children, number)
    if child.phase is Phase.DRAINING:
        is_expected = code in (0, ENDED_BY_SIGTERM) or child.is_killed or children.hurries
        if children.exit_code == 0 and not is_expected:
            return structs.replace(children, exit_code=EXIT_FAILED)
        return children
    if children.exit_code is not None or has_successor:
        return children
    if child.replaces is not None:
        reports = (*children.reports, Report.NOT_RELOADED)
        return structs.replace(children, to_replace=None, reports=reports)
    if not children.has_started and code > 0:
        return structs.replace(children, exit_code=code)
    return _with_vacancy(children, child, now)


def stop(children: Children, now: float) -> Children:
    """A signal asks for the end. A second one cancels handlers, a third one kills."""
    if children.exit_code is None:
        return structs.replace(children, exit_code=0)
    if not children.hurries:
        return structs.replace(children, hurries=True)
    killed = tuple(structs.replace(child, kill_at=now) for child in children.all)
    return structs.replace(children, all=killed)


def reload(children: Children, now: float) -> Children:
    """A signal asks for new code. A successor that is still starting may have the old one: it is
    ended, and the reload begins anew."""
    if children.exit_code is not None:
        return children
    for child in children.all:
        if child.replaces is not None:
            children = _changed(children, _draining(child, now))
    living = [child.number for child in children.all if child.phase is not Phase.DRAINING]
    return structs.replace(children, to_replace=tuple(living))


# What to do


def decide(children: Children, now: float) -> tuple[Children, tuple[Action, ...]]:
    """What to do now, and what the parent knows when it is done."""
    actions: list[Action] = [*children.reports]
    children = structs.replace(children, reports=())
    if children.exit_code is None:
        children = _replace_next(children, now, actions)
        children = _fill_vacancies(children, now, actions)
    else:
        draining = tuple(_draining(child, now) for child in children.all)
        children = structs.replace(children, all=draining, vacancies=(), to_replace=None)
    for child in children.all:
        if child.phase is Phase.DRAINING:
            changed = _drained(child, children, now, actions)
            children = _changed(children, changed)
    return children, tuple(actions)


def _replace_next(children: Children, now: float, actions: list[Action]) -> Children:
    """Goes on with a reload, if no child of it drains."""
    if children.to_replace is None:
        return children
    for successor in children.all:
        if successor.replaces is not None and successor.phase is Phase.READY:
            replaced = children.get(successor.replaces)
            assert replaced is not None
            children = _changed(children, structs.replace(successor, replaces=None))
            children = _changed(children, _draining(replaced, now))
    is_busy = any(
        child.replaces is not None or child.phase is Phase.DRAINING for child in children.all
    )
    if is_busy:
        return children
    if not children.to_replace:
        actions.append(Report.RELOADED)
        return structs.replace(children, to_replace=None)
    successor = Child(number=_free_number(children), since=now, replaces=children.to_replace[0])
    actions.append(Start(successor.number))
    return structs.replace(children, all=(*children.all, successor))


def _fill_vacancies(children: Children, now: float, actions: list[Action]) -> Children:
    """Starts the children that are due. Until the first is ready, no other one is started."""
    target = children.wanted if children.has_started else 1
    counted = [
        child
        for child in children.all
        if child.phase is not Phase.DRAINING and child.replaces is None
    ]
    missing = target - len(counted) - len(children.vacancies)
    vacancies = (*children.vacancies, *[Vacancy(now)] * missing)
    for vacancy in vacancies:
        if vacancy.at <= now:
            child = Child(
                number=_free_number(children),
                since=now,
                deaths=vacancy.deaths,
                early_deaths=vacancy.early_deaths,
            )
            actions.append(Start(child.number))
            children = structs.replace(children, all=(*children.all, child))
    waiting = tuple(vacancy for vacancy in vacancies if vacancy.at > now)
    return structs.replace(children, vacancies=waiting)


def _drained(child: Child, children: Children, now: float, actions: list[Action]) -> Child:
    """Drains a child further: asks it to, hurries it, kills it."""
    kill_at = child.kill_at
    if kill_at is None:
        actions.append(Drain(child.number))
        kill_at = now + children.drain_seconds + KILL_SECONDS
    if children.hurries and not child.is_hurried:
        actions.append(Hurry(child.number))
        kill_at = min(kill_at, now + KILL_SECONDS)
    is_killed = child.is_killed
    if now >= kill_at and not is_killed:
        actions.append(Kill(child.number))
        is_killed = True
    is_hurried = children.hurries
    return structs.replace(child, kill_at=kill_at, is_hurried=is_hurried, is_killed=is_killed)


def _draining(child: Child, now: float) -> Child:
    if child.phase is Phase.DRAINING:
        return child
    return structs.replace(child, phase=Phase.DRAINING, since=now, replaces=None)


def _with_vacancy(children: Children, child: Child, now: float) -> Children:
    """Leaves a vacancy for a child that died, or gives up."""
    is_ready, lived_seconds = child.phase is Phase.READY, now - child.since
    is_early = not is_ready or lived_seconds < EARLY_SECONDS
    deaths = 0 if is_ready and lived_seconds >= STEADY_SECONDS else child.deaths + 1
    early_deaths = child.early_deaths + 1 if is_early else 0
    if early_deaths >= EARLY_DEATHS_MAX:
        reports = (*children.reports, Report.GAVE_UP)
        return structs.replace(children, exit_code=EXIT_FAILED, reports=reports)
    vacancy = Vacancy(now + restart_delay_seconds(deaths), deaths, early_deaths)
    return structs.replace(children, vacancies=(*children.vacancies, vacancy))


def _without(children: Children, number: int) -> tuple[Children, bool]:
    """Without a child that is gone. A successor that was to replace it is an ordinary child now;
    also returns whether there was one."""
    has_successor = any(child.replaces == number for child in children.all)
    living = tuple(
        structs.replace(child, replaces=None) if child.replaces == number else child
        for child in children.all
        if child.number != number
    )
    left = children.to_replace
    if left is not None:
        left = tuple(other for other in left if other != number)
    return structs.replace(children, all=living, to_replace=left), has_successor


def _changed(children: Children, changed: Child) -> Children:
    living = (changed if child.number == changed.number else child for child in children.all)
    return structs.replace(children, all=tuple(living))


def _free_number(children: Children) -> int:
    """The lowest number that no living child has."""
    taken = {child.number for child in children.all}
    return next(number for number in count(1) if number not in taken)
