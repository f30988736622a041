"""Each law accepts a good history and reports a bad one."""

from collections.abc import Callable, Sequence

import pytest

from tests.kit.checkers import (
    Violation,
    accepted,
    at_most_one_live_claim,
    claims_rise,
    effects_once,
    ended_in_order,
    handed_out_in_order,
    held_at_most,
    nothing_lost,
    nothing_twice,
    refused_after_loss,
)
from tests.kit.history import Event, Kind

Law = Callable[[Sequence[Event]], list[Violation]]


class Story:
    """A history built in steps; every step happens at a given time."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def at(
        self,
        at_ns: int,
        kind: Kind,
        op: str,
        *,
        of: Event | None = None,
        process: str = "a",
        **facts: object,
    ) -> Event:
        event = Event(
            at_ns=at_ns,
            pid=1,
            process=process,
            sequence=len(self.events) + 1,
            kind=kind,
            op=op,
            call=of.sequence if of else None,
            facts={"message": "m", **facts},
        )
        self.events.append(event)
        return event

    def claim(
        self, begin_ns: int, end_ns: int, claim: int, *, process: str = "a", **facts: object
    ) -> None:
        call = self.at(begin_ns, "invoke", "claim", process=process)
        self.at(end_ns, "ok", "claim", of=call, process=process, claim=claim, **facts)

    def settle(
        self,
        begin_ns: int,
        end_ns: int,
        claim: int,
        *,
        process: str = "a",
        answer: Kind = "ok",
        **facts: object,
    ) -> None:
        call = self.at(begin_ns, "invoke", "settle", of=None, process=process, claim=claim, **facts)
        self.at(end_ns, answer, "settle", of=call, process=process, claim=claim, **facts)

    def send(self, begin_ns: int, end_ns: int | None, message: str, **facts: object) -> None:
        """A send with a key; `end_ns` is None if there was no response."""
        known = {"message": message, "key": "k", "list": message, "place": 0, **facts}
        call = self.at(begin_ns, "invoke", "send", of=None, process="a", **known)
        if end_ns is not None:
            self.at(end_ns, "ok", "send", of=call, message=message)


def sentences(law: Law, story: Story) -> list[str]:
    return [str(violation) for violation in law(story.events)]


def test_nothing_lost() -> None:
    assert nothing_lost(["a", "b"], ["b", "a", "unknown"]) == []
    (violation,) = nothing_lost(["a", "b", "b"], ["a"])
    assert str(violation) == "nothing_lost: b was accepted and is nowhere"


def test_only_answered_sends_count_as_accepted() -> None:
    story = Story()
    call = story.at(1, "invoke", "send")
    story.at(2, "ok", "send", of=call, message="known")
    story.at(3, "invoke", "send", message="unknown")
    assert accepted(story.events) == ["known"]


def test_nothing_twice() -> None:
    assert nothing_twice(["a", "b"]) == []
    (violation,) = nothing_twice(["a", "b", "a"])
    assert str(violation) == "nothing_twice: a is there 2 times"


def test_effects_once() -> None:
    story = Story()
    story.at(1, "info", "effect", input="a")
    story.at(2, "info", "effect", input="maybe")
    assert effects_once(["a"], story.events) == []
    story.at(3, "info", "effect", input="maybe")
    assert [violation.sentence for violation in effects_once(["a", "b"], story.events)] == [
        "input b had 0 effects",
        "input maybe had 2 effects",
    ]


def test_sequential_claims_are_no_violation() -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    story.settle(3, 6, claim=1)
    story.claim(4, 5, claim=2, process="b")  # granted while the response was on its way
    story.at(7, "info", "expire", claim=2)
    story.claim(8, 9, claim=3, until_ns=20)
    story.claim(21, 22, claim=4, process="b")
    for law in (at_most_one_live_claim, claims_rise, refused_after_loss):
        assert sentences(law, story) == []


def test_a_claim_while_another_is_held_is_a_violation() -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    story.claim(3, 4, claim=2, process="b")
    story.settle(5, 6, claim=1)
    (sentence,) = sentences(at_most_one_live_claim, story)
    assert "m was held twice at once: claim 1 of a" in sentence
    assert "claim 2 of b" in sentence


def test_a_claim_is_held_for_ever_unless_something_ends_it() -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    story.claim(1_000, 1_001, claim=2, process="b")
    assert len(sentences(at_most_one_live_claim, story)) == 1


def test_a_short_claim_inside_a_long_one_does_not_hide_the_next() -> None:
    story = Story()
    story.claim(1, 2, claim=1, until_ns=100)
    story.claim(3, 4, claim=2, until_ns=5)
    story.claim(6, 7, claim=3, until_ns=8)
    assert len(sentences(at_most_one_live_claim, story)) == 2


@pytest.mark.parametrize(("until_ns", "violations"), [(9, 0), (15, 1)])
def test_an_extended_claim_is_held_longer(until_ns: int, violations: int) -> None:
    story = Story()
    story.claim(1, 2, claim=1, until_ns=5)
    call = story.at(3, "invoke", "extend", claim=1)
    story.at(4, "ok", "extend", of=call, claim=1, until_ns=until_ns)
    story.claim(10, 11, claim=2, process="b")
    assert len(sentences(at_most_one_live_claim, story)) == violations


@pytest.mark.parametrize(("is_refused", "violations"), [(False, 0), (True, 1)])
def test_an_unanswered_settle_may_have_ended_the_claim(is_refused: bool, violations: int) -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    call = story.at(3, "invoke", "settle", claim=1)
    if is_refused:
        story.at(4, "fail", "settle", of=call, claim=1)
    story.claim(5, 6, claim=2, process="b")
    assert len(sentences(at_most_one_live_claim, story)) == violations


def test_a_claim_number_given_twice_is_a_violation() -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    story.claim(3, 4, claim=1, process="b")
    assert sentences(claims_rise, story) == ["claims_rise: claim 1 of m was given twice (a)"]


def test_a_claim_number_that_falls_is_a_violation() -> None:
    story = Story()
    story.claim(1, 2, claim=2)
    story.claim(3, 4, claim=1, process="b")
    assert sentences(claims_rise, story) == [
        "claims_rise: claim 1 of m came after a higher one (b)"
    ]


def test_claims_whose_responses_overtake_each_other_are_no_violation() -> None:
    story = Story()
    story.claim(1, 6, claim=1)
    story.claim(3, 4, claim=2, process="b")
    assert sentences(claims_rise, story) == []


def test_a_settle_after_the_loss_must_be_refused() -> None:
    story = Story()
    story.claim(1, 2, claim=1, until_ns=3)
    story.claim(4, 5, claim=2, process="b")
    story.settle(6, 7, claim=1, answer="fail")
    assert sentences(refused_after_loss, story) == []
    story.settle(8, 9, claim=1)
    (sentence,) = sentences(refused_after_loss, story)
    assert "a was allowed to settle m under claim 1 at 9 ns" in sentence


def test_a_settle_that_raced_with_the_loss_may_have_won() -> None:
    story = Story()
    story.claim(1, 2, claim=1)
    story.claim(4, 6, claim=2, process="b")
    story.settle(5, 7, claim=1)
    assert sentences(refused_after_loss, story) == []


def test_as_many_claims_as_the_cap_are_no_violation() -> None:
    story = Story()
    for number, message in enumerate(("a", "b"), 1):
        story.claim(number, 10, claim=1, message=message, key="k")
    story.claim(11, 12, claim=1, message="other", key="another")
    story.settle(12, 30, claim=1, message="a")  # over at any time from its invoke on
    story.claim(13, 14, claim=1, message="c", key="k")
    assert held_at_most(story.events, "key", 2) == []


def test_one_claim_more_than_the_cap_is_a_violation() -> None:
    story = Story()
    story.claim(1, 2, claim=1, message="a", key="k")
    story.claim(3, 4, claim=1, message="b", key="k")
    story.claim(5, 6, claim=1, message="c", key="k")
    (violation,) = held_at_most(story.events, "key", 2)
    assert str(violation) == "held_at_most: 3 of key k were held at 6 ns, not 2"


def test_a_key_in_order_is_no_violation() -> None:
    story = Story()
    story.send(1, 2, "a")
    story.send(3, 4, "b")
    story.claim(5, 6, claim=1, message="a")
    story.settle(7, 12, claim=1, message="a")
    story.claim(8, 9, claim=1, message="b")  # its response came before that of the settle
    assert handed_out_in_order(story.events) == []
    assert ended_in_order(story.events, {"a": 1, "b": 1}) == []


def test_sends_at_the_same_time_have_no_order() -> None:
    story = Story()
    story.send(1, 4, "a")
    story.send(2, 3, "b")
    story.send(5, None, "c")
    story.send(6, 7, "d")
    for place, message in enumerate("badc", 5):
        story.claim(10 * place, 10 * place + 1, claim=1, message=message)
    assert handed_out_in_order(story.events) == []


@pytest.mark.parametrize("end_ns", [4, None])
def test_a_message_that_overtakes_an_earlier_one_is_a_violation(end_ns: int | None) -> None:
    story = Story()
    story.send(1, 2, "a")
    story.send(3, end_ns, "b")
    story.claim(5, 6, claim=1, message="b")
    story.claim(7, 8, claim=1, message="a")
    (violation,) = handed_out_in_order(story.events)
    assert str(violation) == "handed_out_in_order: b of key k overtook a"
    (violation,) = ended_in_order(story.events, {"b": 1, "a": 2})
    assert str(violation) == "ended_in_order: b of key k overtook a"


def test_a_message_that_comes_while_an_earlier_one_is_retried_is_a_violation() -> None:
    story = Story()
    for message, at_ns in (("a", 1), ("b", 3), ("c", 5)):
        story.send(at_ns, at_ns + 1, message)
    story.claim(10, 11, claim=1, message="a")
    story.settle(12, 13, claim=1, message="a")
    story.claim(14, 15, claim=1, message="c")
    story.claim(16, 17, claim=2, message="a")
    assert len(handed_out_in_order(story.events)) == 1


def test_a_list_has_an_order_even_if_its_response_is_unknown() -> None:
    story = Story()
    story.send(1, None, "a", list="l", place=0)
    story.send(1, None, "b", list="l", place=1)
    story.claim(5, 6, claim=1, message="b")
    story.claim(7, 8, claim=1, message="a")
    assert len(handed_out_in_order(story.events)) == 1
