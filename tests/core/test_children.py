"""Which processes of an app are started, drained, restarted and replaced: `core/children`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core import children as rules
from tickwork.core.children import (
    DELAY_SECONDS_MAX,
    EARLY_DEATHS_MAX,
    EARLY_SECONDS,
    KILL_SECONDS,
    STEADY_SECONDS,
    Action,
    Children,
    Drain,
    Hurry,
    Kill,
    Phase,
    Report,
    Start,
)

DRAIN_SECONDS = 10.0


class Parent:
    """A parent whose children do what the test says."""

    def __init__(self, wanted: int = 3) -> None:
        self.now = 0.0
        self.children = Children(wanted=wanted, drain_seconds=DRAIN_SECONDS)
        self.actions: list[Action] = []
        self.decide()

    def decide(self) -> None:
        self.children, actions = rules.decide(self.children, self.now)
        self.actions += actions

    def enter(self, change: Callable[..., Children], *arguments: Any) -> None:
        self.children = change(self.children, *arguments, self.now)
        self.decide()

    def wait(self, seconds: float) -> None:
        """Lets time pass; decides whenever it is due."""
        until = self.now + seconds
        while (at := self.children.next_at) is not None and at <= until:
            self.now = max(at, self.now)
            self.decide()
        self.now = until

    def ready(self, number: int) -> None:
        self.enter(rules.ready, number)

    def ended(self, number: int, code: int = 1) -> None:
        self.enter(rules.ended, number, code)

    def of(self, phase: Phase) -> list[int]:
        return [child.number for child in self.children.all if child.phase is phase]

    def started(self) -> Parent:
        """With all children ready."""
        while starting := self.of(Phase.STARTING):
            self.ready(starting[0])
        return self


def test_the_first_child_starts_alone_and_then_all_others() -> None:
    parent = Parent(3)
    assert parent.actions == [Start(1)]
    parent.ready(1)
    assert parent.actions == [Start(1), Start(2), Start(3)]


@pytest.mark.parametrize("code", [1, 2])
def test_an_app_that_cannot_start_ends_the_parent_with_its_exit_code(code: int) -> None:
    parent = Parent()
    parent.ended(1, code)
    assert (parent.children.is_over, parent.children.exit_code) == (True, code)


def test_the_delay_of_restarts_grows_to_its_bound_and_is_forgotten_after_a_long_life() -> None:
    parent = Parent(1).started()
    delays = []
    for _ in range(12):
        parent.now += EARLY_SECONDS
        parent.ended(1)
        (vacancy,) = parent.children.vacancies
        delays.append(vacancy.at - parent.now)
        parent.wait(delays[-1])
        parent.started()
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_SECONDS_MAX
    parent.now += STEADY_SECONDS
    parent.ended(1)
    assert parent.of(Phase.STARTING) == [1]


def test_a_parent_gives_up_after_so_many_deaths_at_once_and_drains_the_others() -> None:
    parent = Parent(2).started()
    for deaths in range(EARLY_DEATHS_MAX):
        assert parent.children.exit_code is None, deaths
        if deaths:
            parent.wait(DELAY_SECONDS_MAX)
        parent.ended(2, -9)
    assert parent.actions[-2:] == [Report.GAVE_UP, Drain(1)]
    parent.ended(1, 0)
    assert (parent.children.is_over, parent.children.exit_code) == (True, 1)


def test_a_reload_replaces_one_child_after_the_other_once_its_successor_is_ready() -> None:
    parent = Parent(2).started()
    parent.actions.clear()
    parent.enter(rules.reload)
    assert parent.actions == [Start(3)]
    parent.ready(3)
    assert parent.actions[1:] == [Drain(1)]
    parent.wait(1)
    assert len(parent.actions) == 2
    parent.ended(1, 0)
    assert parent.actions[2:] == [Start(1)]
    parent.ready(1)
    parent.ended(2, 0)
    assert parent.actions[3:] == [Drain(2), Report.RELOADED]
    assert sorted(parent.of(Phase.READY)) == [1, 3]


def test_a_reload_ends_if_the_new_code_does_not_start_and_the_others_stay() -> None:
    parent = Parent(2).started()
    parent.enter(rules.reload)
    parent.ended(3, 2)
    assert parent.actions[-1] is Report.NOT_RELOADED
    assert parent.of(Phase.READY) == [1, 2]
    parent.wait(100)
    assert len(parent.children.all) == 2


def test_a_second_reload_begins_anew_without_the_successor_that_had_not_started() -> None:
    parent = Parent(2).started()
    parent.enter(rules.reload)
    parent.enter(rules.reload)
    assert parent.actions[-2:] == [Start(3), Drain(3)]
    parent.ended(3, -15)
    assert parent.actions[-1:] == [Start(3)]


def test_a_second_signal_hurries_all_children_and_a_third_one_kills_them() -> None:
    parent = Parent(2).started()
    parent.actions.clear()
    for _ in range(3):
        parent.enter(rules.stop)
    wanted = [Drain(1), Drain(2), Hurry(1), Hurry(2), Kill(1), Kill(2)]
    assert parent.actions == wanted


def test_a_child_that_does_not_end_is_killed() -> None:
    parent = Parent(1).started()
    parent.enter(rules.stop)
    parent.wait(DRAIN_SECONDS + KILL_SECONDS - 0.1)
    assert Kill(1) not in parent.actions
    parent.wait(0.1)
    assert parent.actions[-1] == Kill(1)
    parent.ended(1, -9)
    assert parent.children.exit_code == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ready", "death", "exit", "reload", "wait", "long wait"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(wanted=st.integers(1, 4), steps=STEPS)
def test_whatever_happens_no_process_is_too_many_and_none_is_missing_for_long(
    wanted: int, steps: list[tuple[str, int]]
) -> None:
    parent = Parent(wanted)
    for what, choice in steps:
        before = parent.of(Phase.READY)
        known = len(parent.actions)
        living = parent.children.all
        if what == "reload":
            parent.enter(rules.reload)
        elif what.endswith("wait"):
            parent.wait(choice * (STEADY_SECONDS if what == "long wait" else 1.0))
        elif living:
            child = living[choice % len(living)]
            if what == "ready":
                parent.ready(child.number)
            elif what == "death":
                parent.ended(child.number, -9)
            elif child.phase is Phase.DRAINING:
                parent.ended(child.number, 0)
        check(parent, wanted)
        if parent.children.exit_code is not None:
            assert what == "death"
            return
        # A child that was ready is drained only when another one has become ready for it.
        drained = [action.number for action in parent.actions[known:] if isinstance(action, Drain)]
        if what != "death":
            assert len(parent.of(Phase.READY)) >= len(before)
        assert len(set(drained) & {*before}) <= 1
    settle(parent)
    assert len(parent.of(Phase.READY)) == wanted == len(parent.children.all)


def check(parent: Parent, wanted: int) -> None:
    """What holds at every moment."""
    children = parent.children
    numbers = [child.number for child in children.all]
    assert len(numbers) == len({*numbers})
    serving = [child for child in children.all if child.phase is not Phase.DRAINING]
    assert len(serving) <= wanted + 1
    assert len(numbers) <= 2 * wanted + 2
    if children.exit_code is None:
        target = wanted if children.has_started else 1
        counted = [child for child in serving if child.replaces is None]
        assert len(counted) + len(children.vacancies) == target
        for vacancy in children.vacancies:
            assert parent.now < vacancy.at <= parent.now + DELAY_SECONDS_MAX


def settle(parent: Parent) -> None:
    """Nothing bad happens any more."""
    for _ in range(100):
        if draining := parent.of(Phase.DRAINING):
            parent.ended(draining[0], 0)
        elif starting := parent.of(Phase.STARTING):
            parent.ready(starting[0])
        elif parent.children.next_at is not None:
            parent.wait(DELAY_SECONDS_MAX)
        else:
            return
    raise AssertionError(parent.children)


@given(steps=st.lists(st.sampled_from(["stop", "end", "wait"]), max_size=20))
def test_a_stop_ends_all_children_in_a_bounded_time(steps: list[str]) -> None:
    parent = Parent(3).started()
    parent.enter(rules.stop)
    for what in steps:
        if what == "stop":
            parent.enter(rules.stop)
        elif what == "wait":
            parent.wait(1)
        elif parent.children.all:
            parent.ended(parent.children.all[0].number, 0)
    parent.wait(DRAIN_SECONDS + KILL_SECONDS)
    for child in parent.children.all:
        assert child.is_killed
        parent.ended(child.number, -9)
    assert (parent.children.is_over, parent.children.exit_code) == (True, 0)
