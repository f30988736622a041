"""What a body asks for of its record, and which recorded result it gets next.

A body is called again from its top whenever its run goes on. Until it has asked again for every
recorded step, nothing new may run: a step that the record has and the code does not ask for, or
asks for otherwise, means that the two have diverged.

An optional step need not be asked for: the body called it because another one had failed, which is
tried again. If that did not fail again, a call that is not the recorded one is another step.

Recorded results come back in the order in which the body got them (`ended`), so that branches which
raced go on as they went. The end of a sleep is not recorded, but it takes a number like a result.
So a number that is missing before a result was a sleep, the first by its time that was over when
the result came.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tickwork.core.workflow.model import RunStep, StepKind, StepState
from tickwork.core.workflow.step_key import is_compensation

KEYS_SHOWN_MAX = 10
"""Maximum number of steps that a divergence names."""

Order = tuple[int, float, int]


class Recall:
    """The record of one execution of a body. Steps up to the position `accepted` need not be asked
    for, and may be asked for with another function or other arguments."""

    def __init__(self, steps: Collection[RunStep], accepted: int = 0) -> None:
        self._recorded = steps  # With what is recorded while the body runs.
        self._steps = {step.key: step for step in steps if not is_compensation(step.key)}
        self._accepted = accepted
        self._ended = sorted(filter(_has_result, self._steps.values()), key=_order)
        self._next = 0
        self._asked: set[str] = set()
        self._new: list[str] = []
        self._sleeps: list[RunStep] = []
        self._passed: set[str] = set()
        self._late: list[str] = []
        self._last = 0
        self.mismatch: str | None = None
        self.has_exceptions = accepted > 0 or any(step.optional for step in self._steps.values())

    @property
    def last(self) -> int:
        """The number of the last result that the body got."""
        return self._last

    def key(self, key: str, kind: StepKind, called: str | None = None) -> str:
        """The key under which a step is recorded. An accepted step of another kind and an optional
        step of another call keep their key, and the step in their place gets another one."""
        while (known := self._steps.get(key)) is not None:
            if known.optional:
                is_same = _agree(known, kind, called) or self._has_failed_since(known)
            else:
                is_same = known.kind is kind or known.position > self._accepted
            if is_same:
                break
            key = f"{key}'"
        return key

    def ask(self, key: str, kind: StepKind, called: str | None) -> RunStep | None:
        """The record of a step that the body asks for."""
        known = self._steps.get(key)
        if known is None:
            self._new.append(f"{key} ({_what(kind, called)})")
            return None
        self._asked.add(key)
        is_accepted = known.position <= self._accepted
        if self.mismatch is None and not is_accepted and not _agree(known, kind, called):
            self.mismatch = (
                f"step {key!r} is recorded as {_what(known.kind, known.called)} and asked for as "
                f"{_what(kind, called)}{_of_arguments(known, kind, called)}"
            )
        if kind is StepKind.SLEEP:
            self._sleeps.append(known)
        elif key in self._passed:
            self._late.append(key)
        return known

    def differ(self, step: RunStep, text: str) -> bool:
        """Notes that the code cannot go on with a recorded step; False if the step is accepted."""
        if step.position <= self._accepted:
            return False
        self.mismatch = self.mismatch or text
        return True

    def next(self, now: datetime, *, may_pass: bool = True) -> str | None:
        """The key of the step whose result the body gets next; None if there is no more, if it has
        not asked for the next one, or if it has asked for a step otherwise than it is recorded.
        Accepted and optional results that it does not ask for are passed, if the body waits
        (`may_pass`)."""
        if self.mismatch is not None:
            return None
        if self._late:
            return self._late[0]
        while self._next < len(self._ended):
            ended = self._ended[self._next]
            if ended.key not in self._asked and self._may_miss(ended):
                if not may_pass:
                    return None
                self._passed.add(ended.key)
                self._pass(ended)
                continue
            has_gap = ended.ended is None or ended.ended > self._last + 1
            if has_gap and (sleep := self._first_sleep(ended.finished_at or now)) is not None:
                return sleep.key
            return ended.key if ended.key in self._asked else None
        sleep = self._first_sleep(now)
        return None if sleep is None else sleep.key

    def give(self, key: str) -> RunStep:
        """Notes that the body gets the result of a step; and its record."""
        step = self._steps[key]
        if step.kind is StepKind.SLEEP:
            self._sleeps.remove(step)
            self._last += 1
        elif key in self._late:
            self._late.remove(key)
        else:
            self._pass(step)
        return step

    def has_unasked(self) -> bool:
        """Whether the record goes beyond what the body has asked for."""
        return any(
            key not in self._asked and step.kind is not StepKind.PATCH and not step.optional
            for key, step in self._steps.items()
        )

    def missing(self) -> list[str]:
        """The keys of recorded steps that the body has not asked for. Patches have no effect, so
        that they may go."""
        return [
            step.key
            for step in self._steps.values()
            if step.key not in self._asked
            and not self._may_miss(step)
            and step.kind is not StepKind.PATCH
        ]

    def divergence(self) -> str | None:
        """How the calls of a body that can go no further differ from its record."""
        if self.mismatch is not None:
            return self.mismatch
        missing = self.missing()
        if not missing:
            return None
        shown = [f"{key} ({_what_step(self._steps[key])})" for key in missing]
        text = f"recorded, but not asked for by this code: {_list(shown)}"
        if self._new:
            text += f"; asked for, but not recorded: {_list(self._new)}"
        return text

    def _may_miss(self, step: RunStep) -> bool:
        return step.optional or step.position <= self._accepted

    def _has_failed_since(self, optional: RunStep) -> bool:
        """Whether a step before an optional one has failed again, so that the body may do about it
        what it did before."""
        return any(
            step.state is StepState.FAILED
            and step.position < optional.position
            and (step.ended or 0) > (optional.ended or 0)
            for step in self._recorded
        )

    def _pass(self, ended: RunStep) -> None:
        self._next += 1
        self._last = ended.ended or self._last

    def _first_sleep(self, until: datetime) -> RunStep | None:
        due = [sleep for sleep in self._sleeps if sleep.wake_at is None or sleep.wake_at <= until]
        return min(due, key=_wake_order, default=None)


def _has_result(step: RunStep) -> bool:
    return step.state.is_final and step.kind not in (StepKind.SLEEP, StepKind.PATCH)


def _order(step: RunStep) -> Order:
    """Steps that were recorded without a number come first, by their time."""
    finished_at = step.finished_at or step.started_at
    return step.ended or 0, finished_at.timestamp(), step.position


def _wake_order(sleep: RunStep) -> tuple[float, int]:
    return 0.0 if sleep.wake_at is None else sleep.wake_at.timestamp(), sleep.position


def _agree(known: RunStep, kind: StepKind, called: str | None) -> bool:
    return known.kind is kind and (known.called is None or known.called == called)


def _what_step(step: RunStep) -> str:
    return _what(step.kind, step.called)


def _what(kind: StepKind, called: str | None) -> str:
    """What a step is, in words: its kind, and its function or type."""
    if called is None:
        return str(kind)
    return f"{kind} {called!r}" if kind is StepKind.EVENT else f"{kind} {_name(called)}"


def _of_arguments(known: RunStep, kind: StepKind, called: str | None) -> str:
    is_same = known.kind is kind and called is not None and known.called is not None
    if is_same and _name(str(known.called)) == _name(str(called)):
        return " with other arguments"
    return ""


def _name(called: str) -> str:
    """The function without the digest of its arguments."""
    return called.partition(" ")[0]


def _list(texts: list[str]) -> str:
    more = len(texts) - KEYS_SHOWN_MAX
    return ", ".join(texts[:KEYS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
