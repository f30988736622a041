"""What a body gets of its record, and in which order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.kit.soak import examples
from tickwork.core.workflow.model import RunStep, StepKind, StepState
from tickwork.core.workflow.recall import Recall

NOW = datetime(2027, 3, 14, 9, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def step(key: str, ended: int | None = None, **fields: Any) -> RunStep:
    known: dict[str, Any] = {
        "position": 1,
        "kind": StepKind.DO,
        "state": StepState.DONE if ended is not None else StepState.STARTED,
        "started_at": NOW,
        "finished_at": None if ended is None else at(ended),
        "ended": ended,
        "called": f"work {key}",
    }
    return RunStep(key=key, **known | fields)


def sleep(key: str, seconds: float, position: int = 1) -> RunStep:
    return RunStep(
        key=key,
        position=position,
        kind=StepKind.SLEEP,
        state=StepState.WAITING,
        wake_at=at(seconds),
        started_at=NOW,
    )


def ask(recall: Recall, recorded: RunStep) -> None:
    recall.ask(recorded.key, recorded.kind, recorded.called)


def drained(recall: Recall, now: datetime = NOW) -> list[str]:
    """The keys of all results that can be given now, in order."""
    given_keys = []
    while (key := recall.next(now)) is not None:
        recall.give(key)
        given_keys.append(key)
    return given_keys


def test_results_come_back_in_the_order_in_which_the_body_got_them() -> None:
    steps = [step("a", 3), step("b", 1), step("c", 2)]
    recall = Recall(steps)
    for recorded in steps:
        ask(recall, recorded)
    assert drained(recall) == ["b", "c", "a"]
    assert recall.divergence() is None


def test_a_result_waits_for_an_earlier_one_that_was_not_asked_for() -> None:
    first, second = step("a", 1), step("b", 2)
    recall = Recall([first, second])
    ask(recall, second)
    assert recall.next(NOW) is None
    assert recall.divergence() == "recorded, but not asked for by this code: a (do work)"
    ask(recall, first)
    assert drained(recall) == ["a", "b"]


def test_a_missing_number_was_the_end_of_the_sleep_that_was_over_by_then() -> None:
    early, late, never = sleep("early", 1.5), sleep("late", 1.6), sleep("never", 9)
    steps = [step("a", 1), early, late, never, step("b", 4)]
    recall = Recall(steps)
    for recorded in steps:
        ask(recall, recorded)
    assert drained(recall, at(5)) == ["a", "early", "late", "b"]
    assert drained(recall, at(9)) == ["never"]


def test_a_sleep_that_was_not_over_does_not_fill_the_number_of_a_lost_result() -> None:
    """The worker died between two records; the body had got neither."""
    rest, kept = sleep("rest", 2.5), step("b", 2)
    recall = Recall([rest, kept])
    ask(recall, rest)
    ask(recall, kept)
    assert drained(recall, at(60)) == ["b", "rest"]


def test_another_kind_function_or_argument_is_named() -> None:
    recorded = step("charge", 1, called="charge_card 00aa")
    for kind, called, text in (
        (StepKind.SLEEP, None, "is recorded as do charge_card and asked for as sleep"),
        (StepKind.DO, "bill 00aa", "is recorded as do charge_card and asked for as do bill"),
        (StepKind.DO, "charge_card 00bb", "asked for as do charge_card with other arguments"),
    ):
        recall = Recall([recorded])
        recall.ask("charge", kind, called)
        assert recall.next(NOW) is None
        assert text in str(recall.divergence())


def test_a_record_without_numbers_and_functions_is_taken_as_it_is() -> None:
    """Runs that were recorded by an earlier release."""
    old = [
        step("b", None, state=StepState.DONE, finished_at=at(2), called=None),
        step("a", None, state=StepState.DONE, finished_at=at(1), called=None),
    ]
    recall = Recall(old)
    for key in ("a", "b"):
        recall.ask(key, StepKind.DO, "anything at all")
    assert drained(recall) == ["a", "b"]
    assert recall.divergence() is None


def test_accepted_steps_need_not_be_asked_for_and_come_back_whenever_they_are() -> None:
    gone, late, new = step("gone", 1), step("late", 2), step("new", 3, position=2)
    recall = Recall([gone, late, new], accepted=1)
    ask(recall, new)
    assert drained(recall) == ["new"]
    ask(recall, late)
    assert drained(recall) == ["late"]
    assert recall.divergence() is None


def test_an_accepted_step_of_another_kind_keeps_its_key() -> None:
    paused = step("pause", 1)
    recall = Recall([paused], accepted=1)
    assert recall.key("pause", StepKind.SLEEP) == "pause'"
    assert recall.key("pause", StepKind.DO) == "pause"
    assert Recall([paused]).key("pause", StepKind.SLEEP) == "pause"


def test_an_optional_step_may_be_left_out_and_another_call_is_another_step() -> None:
    failed, told, paid = step("a", 3), step("told", 2, optional=True), step("paid", 4, position=3)
    recall = Recall([failed, told, paid])
    assert recall.key("told", StepKind.DO, "other work") == "told'"
    assert recall.key("told", StepKind.DO, told.called) == "told"
    assert recall.key("paid", StepKind.DO, "other work") == "paid"
    ask(recall, failed)
    assert recall.next(NOW, may_pass=False) is None
    assert drained(recall) == ["a"]
    assert recall.missing() == ["paid"]
    ask(recall, paid)
    assert drained(recall) == ["paid"]
    assert recall.divergence() is None


def test_an_optional_step_is_not_done_otherwise_when_the_other_one_fails_again() -> None:
    failed = step("a", 3, state=StepState.FAILED)
    told = step("told", 2, position=2, optional=True)
    recall = Recall([failed, told])
    assert recall.key("told", StepKind.DO, "other work") == "told"
    recall.ask("told", StepKind.DO, "other work")
    assert "step 'told' is recorded as do work" in str(recall.divergence())


def test_a_patch_may_go() -> None:
    patch = step("p", None, kind=StepKind.PATCH, state=StepState.DONE, output=b"true")
    assert Recall([patch]).divergence() is None


@hypothesis_settings(max_examples=examples(300))
@given(st.permutations(range(1, 8)), st.lists(st.booleans(), min_size=7, max_size=7))
def test_every_result_is_given_once_and_in_order_however_branches_ask(
    order: list[int], is_sleep: list[bool]
) -> None:
    """Steps are asked for in any order that a body with branches may have."""
    ended = [number for number in range(1, 8) if not is_sleep[number - 1]]
    steps = [
        step(str(number), number) if number in ended else sleep(str(number), number, number)
        for number in order
    ]
    recall = Recall(steps)
    given_keys: list[str] = []
    for recorded in steps:
        ask(recall, recorded)
        while (key := recall.next(NOW)) is not None:
            recall.give(key)
            given_keys.append(key)
    given_keys += drained(recall, at(100))
    finals = [key for key in given_keys if int(key) in ended]
    assert finals == [str(number) for number in ended]
    assert sorted(given_keys) == sorted(step.key for step in steps)
    assert recall.divergence() is None
