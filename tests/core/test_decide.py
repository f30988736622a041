"""Decisions after an outcome: ack, retry, release or dead letter."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.core.messages import claimed_message
from tests.core.test_backoff import BACKOFFS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import (
    DELAY_SECONDS_MAX,
    ERROR_LENGTH_MAX,
    HOPS_MAX,
    check_message,
    check_settlement,
)
from tickwork.core.message import decide
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.decide import UNHANDLED_RELEASES_MAX, effective_outcome
from tickwork.core.message.outcome import (
    Expired,
    Failed,
    InvalidPayload,
    Outcome,
    Permanent,
    RetryRequested,
    Snoozed,
    Succeeded,
    TooManyHops,
    UnhandledType,
)
from tickwork.core.model import Ending, Fate, Message, NewMessage, QueueSettings, Send, Settlement

ANY_TEXT = st.text(st.characters(), max_size=50)
ANY_SECONDS = st.floats() | st.integers(-(10**30), 10**30).map(float)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded),
    st.builds(RetryRequested, st.none() | ANY_SECONDS, st.none() | ANY_TEXT),
    st.builds(Failed, ANY_TEXT),
    st.builds(Permanent, ANY_TEXT),
    st.builds(Snoozed, ANY_SECONDS),
    st.builds(InvalidPayload, ANY_TEXT),
    st.builds(UnhandledType),
    st.builds(TooManyHops),
    st.builds(Expired),
)
STORED_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
MESSAGES = st.builds(
    claimed_message,
    id=st.uuids(),
    claim=st.integers(1, 1_000),
    attempts=st.integers(0, 101),
    lost=st.integers(0, 3),
    hops=st.integers(0, HOPS_MAX),
    type=st.none() | STORED_TEXT,
    event_id=st.none() | STORED_TEXT,
    correlation_id=st.none() | STORED_TEXT,
)
SETTINGS = st.builds(QueueSettings, max_retries=st.integers(0, 100), backoff=BACKOFFS)
PLAIN = QueueSettings()


def sends(number: int) -> list[Send]:
    return [Send("other", NewMessage(id=UUID(int=9 + n), body=b"{}")) for n in range(number)]


def delivered(outcome: Outcome, queue: QueueSettings, deliveries_max: int) -> list[Ending]:
    """The fates of a message whose every attempt has the same outcome."""
    message, endings = claimed_message(), []
    for _ in range(deliveries_max):
        ending = decide.settle(message, outcome, queue)
        endings.append(ending)
        if ending.fate in (Fate.ACK, Fate.DEAD):
            break
        attempts = message.attempts + ending.counts_attempt
        message = structs.replace(
            message,
            claim=message.claim + 1,
            attempts=attempts,
            last_error=ending.error or message.last_error,
        )
    return endings


@settings(deadline=None)
@given(MESSAGES, OUTCOMES, SETTINGS, st.floats(0, 1), st.integers(0, 2))
def test_a_store_accepts_every_ending(
    message: Message, outcome: Outcome, queue: QueueSettings, jitter: float, number: int
) -> None:
    ending = decide.settle(message, outcome, queue, jitter=jitter, sends=sends(number))
    assert ending.claim == message.current_claim
    check_settlement(Settlement((ending,)))
    assert (ending.fate is Fate.DEAD) == (ending.reason is not None)


@given(st.integers(0, 100), st.sampled_from([Failed("no"), RetryRequested(), RetryRequested(0)]))
def test_a_message_is_dead_after_one_attempt_and_its_retries(
    max_retries: int, outcome: Outcome
) -> None:
    endings = delivered(outcome, QueueSettings(max_retries=max_retries), 200)
    assert len(endings) == max_retries + 1
    assert {ending.fate for ending in endings[:-1]} <= {Fate.RETRY}
    assert (endings[-1].fate, endings[-1].reason) == (Fate.DEAD, "max_retries")


def test_a_retry_waits_for_the_backoff() -> None:
    endings = delivered(Failed("no"), PLAIN, 10)
    assert [ending.delay_seconds for ending in endings] == [30, 60, 120, 0]


@pytest.mark.parametrize("seconds", [0, 0.0, 7, DELAY_SECONDS_MAX])
def test_a_requested_delay_replaces_the_backoff_even_if_it_is_0(seconds: float) -> None:
    ending = decide.settle(claimed_message(), RetryRequested(seconds), PLAIN, jitter=1.0)
    assert (ending.fate, ending.delay_seconds) == (Fate.RETRY, seconds)


@pytest.mark.parametrize("ended", [Failed("the reason"), Permanent("the reason")])
def test_a_requested_retry_keeps_the_error_that_was_raised_after_it(ended: Outcome) -> None:
    outcome = effective_outcome(RetryRequested(7), ended)
    retried = decide.settle(claimed_message(), outcome, PLAIN)
    assert (retried.fate, retried.delay_seconds) == (Fate.RETRY, 7)
    dead = decide.settle(claimed_message(), outcome, QueueSettings(max_retries=0))
    assert (dead.fate, dead.reason) == (Fate.DEAD, "max_retries")
    assert retried.error == dead.error == "the reason"


@pytest.mark.parametrize(
    ("said", "ended", "counts"),
    [
        (None, None, Succeeded()),
        (None, Failed("no"), Failed("no")),
        (Succeeded(), Failed("no"), Succeeded()),
        (Succeeded(), Snoozed(3), Succeeded()),
        (RetryRequested(7), None, RetryRequested(7)),
        (RetryRequested(7), Snoozed(3), RetryRequested(7)),
    ],
)
def test_a_requested_outcome_wins_over_the_result(
    said: Outcome | None, ended: Outcome | None, counts: Outcome
) -> None:
    assert effective_outcome(said, ended) == counts


@given(MESSAGES, st.floats(0, 1))
def test_jitter_changes_only_the_backoff(message: Message, jitter: float) -> None:
    queue = QueueSettings(max_retries=100, backoff=Fixed(100))
    message = structs.replace(message, attempts=5)
    retried = decide.settle(message, Failed("no"), queue, jitter=jitter)
    assert 100 <= retried.delay_seconds <= 110
    snoozed = decide.settle(message, Snoozed(100), queue, jitter=jitter)
    assert snoozed.delay_seconds == 100


@given(MESSAGES)
def test_the_jitter_of_an_attempt_is_stable(message: Message) -> None:
    assert decide.jitter_of(message) == decide.jitter_of(structs.replace(message, claim=77))
    assert 0 <= decide.jitter_of(message) <= 1
    another = structs.replace(message, attempts=message.attempts + 1)
    assert decide.jitter_of(message) != decide.jitter_of(another)


def test_snoozing_never_counts_an_attempt() -> None:
    endings = delivered(Snoozed(60), QueueSettings(max_retries=0), 300)
    assert len(endings) == 300
    assert {(ending.fate, ending.delay_seconds) for ending in endings} == {(Fate.RELEASE, 60)}


@pytest.mark.parametrize(
    ("outcome", "reason", "error"),
    [
        (Permanent("no such user"), "permanent", "no such user"),
        (InvalidPayload("to: is missing"), "invalid_payload", "to: is missing"),
        (TooManyHops(), "too_many_hops", "the message has 0 hops"),
        (Expired(), "expired", None),
    ],
)
def test_a_message_that_can_never_succeed_is_dead_at_once(
    outcome: Outcome, reason: str, error: str | None
) -> None:
    ending = decide.settle(claimed_message(), outcome, QueueSettings(max_retries=100))
    assert (ending.fate, ending.reason, ending.error) == (Fate.DEAD, reason, error)


def test_an_unknown_type_waits_ten_minutes_for_another_node() -> None:
    endings = delivered(UnhandledType(), QueueSettings(max_retries=0), 100)
    assert {ending.fate for ending in endings[:-1]} == {Fate.RELEASE}
    assert sum(ending.delay_seconds for ending in endings) == 600
    assert (endings[-1].fate, endings[-1].reason) == (Fate.DEAD, "unhandled_type")
    assert not any(ending.counts_attempt for ending in endings[:-1])


@pytest.mark.parametrize(
    "type_", ["new", "\0" * 3, "long" * ERROR_LENGTH_MAX, "(release 3 of 20)\n"]
)
def test_only_releases_without_a_handler_count_towards_the_wait_for_one(type_: str) -> None:
    message, fates = claimed_message(claim=100, attempts=1, lost=2, type=type_), []
    for _ in range(UNHANDLED_RELEASES_MAX + 1):
        ending = decide.settle(message, UnhandledType(), PLAIN)
        fates.append(ending.fate)
        message = structs.replace(message, claim=message.claim + 1, last_error=ending.error)
    assert fates == [Fate.RELEASE] * UNHANDLED_RELEASES_MAX + [Fate.DEAD]


def test_a_snoozed_message_waits_as_long_for_a_handler_as_others() -> None:
    """In a rolling deploy it may be claimed by a node without the handler."""
    message = claimed_message(claim=1_000, type="new")
    assert decide.settle(message, UnhandledType(), PLAIN).fate is Fate.RELEASE
    assert decide.settle(message, Snoozed(30), PLAIN).error is None


@pytest.mark.parametrize(
    "outcome", [RetryRequested(), Failed("no"), Permanent("no"), Snoozed(1), UnhandledType()]
)
def test_nothing_is_sent_without_success(outcome: Outcome) -> None:
    assert decide.settle(claimed_message(), outcome, PLAIN, sends=sends(2)).sends == ()


@given(MESSAGES.filter(lambda message: message.hops < HOPS_MAX))
def test_a_sent_message_has_its_cause_and_correlation(message: Message) -> None:
    ending = decide.settle(message, Succeeded(), PLAIN, sends=sends(2))
    assert ending.fate is Fate.ACK
    assert len(ending.sends) == 2
    for send in ending.sends:
        check_message(send.message)
        assert send.message.correlation_id == (
            message.correlation_id or public_id(Prefix.MESSAGE, message.id)
        )
        assert send.message.causation_id == (
            message.event_id or public_id(Prefix.MESSAGE, message.id)
        )
        assert send.message.hops == message.hops + 1


@given(MESSAGES)
def test_setting_the_cause_twice_changes_nothing(message: Message) -> None:
    once = decide.caused_by(message, NewMessage(id=UUID(int=9), body=b"{}"))
    assert decide.caused_by(message, once) == once


def test_a_sender_may_give_another_correlation_id() -> None:
    new = NewMessage(id=UUID(int=9), body=b"{}", correlation_id="mine", causation_id="me")
    caused = decide.caused_by(claimed_message(correlation_id="theirs", hops=3), new)
    assert (caused.correlation_id, caused.causation_id, caused.hops) == ("mine", "me", 4)


def test_a_chain_of_messages_ends_as_a_dead_letter() -> None:
    message, hops = claimed_message(), 0
    while decide.early_outcome(message) is None:
        (send,) = decide.settle(message, Succeeded(), PLAIN, sends=sends(1)).sends
        message = claimed_message(hops=send.message.hops)
        hops += 1
    assert hops == HOPS_MAX
    assert decide.early_outcome(message) == TooManyHops()


def test_a_handler_at_the_hop_limit_sends_nothing() -> None:
    far = claimed_message(hops=HOPS_MAX)
    assert decide.settle(far, Succeeded(), PLAIN).fate is Fate.ACK
    ending = decide.settle(far, Succeeded(), PLAIN, sends=sends(1))
    assert (ending.fate, ending.reason, ending.sends) == (Fate.DEAD, "too_many_hops", ())


@given(st.text(st.characters()))
def test_a_clean_error_stays_clean(text: str) -> None:
    cleaned = decide.clean_error(text)
    assert decide.clean_error(cleaned) == cleaned
    assert "\0" not in cleaned
    cleaned.encode()


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("😀", "😀"),
        ("", decide.NO_TEXT),
        (" \n", decide.NO_TEXT),
    ],
)
def test_characters_that_databases_refuse_are_replaced(text: str, cleaned: str) -> None:
    assert decide.clean_error(text) == cleaned


@pytest.mark.parametrize("extra", [1, 2, 99, 10**6])
def test_a_long_error_keeps_its_start_and_end(extra: int) -> None:
    text = "first" + "x" * (ERROR_LENGTH_MAX - 9 + extra) + "last"
    cleaned = decide.clean_error(text)
    assert len(cleaned) == ERROR_LENGTH_MAX
    assert cleaned.startswith("firstx")
    assert cleaned.endswith("xlast")
    assert f"{len(text)} characters in all" in cleaned


def test_every_outcome_is_decided() -> None:
    outcomes: list[Any] = [*Outcome.__args__]
    given_one = {
        "error": "no", "seconds": 1.0, "outcome": Succeeded(), "sends": (), "at_least_seconds": 0.0,
    }  # fmt: skip
    for kind in outcomes:
        fields = {name: given_one.get(name) for name in kind.__struct_fields__}
        assert isinstance(decide.settle(claimed_message(), kind(**fields), PLAIN), Ending)
