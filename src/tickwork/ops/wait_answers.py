"""Turns the facts about a message, a dead letter, a delivery, an endpoint or a run into a code and
sentences, without I/O.

Each answer says what it waits for, since when, until when, and what happens next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tickwork.core.answers.history import HistoryRecord
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.wait import Wait
from tickwork.core.delivery.endpoint import DeliveryStatus, Endpoint, EndpointDelivery
from tickwork.core.limits import FOREVER_SECONDS, HIDDEN_QUEUES
from tickwork.core.message.dead_letter import Death, StoredDeadLetter, read_death
from tickwork.core.message.error_summary import summary_line
from tickwork.core.message.history import Outcome
from tickwork.core.model import Message, QueueSettings, State
from tickwork.core.queue.rooms import Line
from tickwork.core.queue.wait_estimate import estimate_words
from tickwork.ops.message_facts import (
    MessageFacts,
    Unread,
    death_words,
    delivery_words,
    first_words,
    subject_of,
)
from tickwork.ops.schedules.why_answers import iso_second

_ERROR_LENGTH_MAX = 200
"""Characters of an error in a sentence."""


def message_wait(facts: MessageFacts) -> Wait:
    """Why a message waits."""
    message = facts.message
    until = None
    since = message_since(facts.message)
    more: tuple[str, ...] = ()
    _, subject = subject_of(facts)
    obstacles = obstacles_text(facts.obstacles)
    if message.waits_since is not None:
        code = "completion"
        answer = f"{subject} was delivered and waits for its receiver to complete it"
        then, until = "it is completed, or fails when its time is over", message.visible_at
    elif message.state is State.CLAIMED:
        code, answer, then, until = _claimed(facts, subject)
    elif facts.endpoint is not None and is_stopped(facts.endpoint):
        return _stopped(facts, facts.endpoint)
    elif facts.endpoint is None and facts.settings.push_to is not None:
        code, answer, then = _pushed_nowhere(facts, facts.settings.push_to, subject)
    elif message.state is State.BLOCKED:
        code = "blocked"
        since = message.sent_at
        first = "an earlier message of its key"
        if facts.ahead is not None:
            first = first_words(facts.ahead)
        answer = f"{subject} waits for {first}"
        then = f"it becomes ready when that message is gone{obstacles}"
        if facts.is_direct:
            then = f"its process runs it when that call has ended{obstacles}"
        if message.visible_at > facts.now:
            more = (f"its retry is due at {iso_second(message.visible_at)}",)
    elif facts.unread is not None and facts.unread.if_lost is not None:
        code, answer, then, until = _unreadable(facts, facts.unread, subject)
    elif message.visible_at > facts.now and message.limited_by is not None:
        code, until = "limited", message.visible_at
        answer = f"{subject} waits for its turn: {message.limited_by}"
        then = f"a worker tries again at {iso_second(until)}{obstacles}"
    elif message.visible_at > facts.now:
        code = "delayed"
        answer = f"{subject} is delayed"
        until = message.visible_at
        if message.attempts or message.lost:
            code, answer = "retrying", f"{subject} failed and waits for its next attempt"
            more = (WHO_WAITS,) if facts.is_call else ()
        then = f"a worker runs it at {iso_second(until)}{obstacles}"
        if facts.is_pulled:
            then = f"a consumer can pull it at {iso_second(until)}{obstacles}"
    else:
        code, answer, then = _ready(facts, subject)
    return _message_answer(facts, code, answer, then, since=since, until=until, more=more)


def _unreadable(
    facts: MessageFacts, unread: Unread, subject: str
) -> tuple[str, str, str, datetime | None]:
    visible_at = facts.message.visible_at
    answer = f"{subject} waits: {unread.what}"
    obstacles = obstacles_text(facts.obstacles)
    then = f"workers try again when it is due; {unread.remedy}{obstacles}"
    return UNREADABLE, answer, then, visible_at if visible_at > facts.now else None


def _ready(facts: MessageFacts, subject: str) -> tuple[str, str, str]:
    obstacles = obstacles_text(facts.obstacles)
    if facts.is_pulled:
        then = f"the next pull of its queue leases it{obstacles}"
        return READY, f"{subject} is ready and waits for a consumer to pull it", then
    if facts.line is not None and facts.line.under_way > 0:
        return _in_line(facts.line, subject, obstacles)
    needed = " with tickwork[delivery]" if facts.queue in HIDDEN_QUEUES else ""
    then = f"a worker{needed} runs it as soon as one is free{obstacles}"
    return READY, f"{subject} is ready and waits for a worker", then


def _in_line(line: Line, subject: str, obstacles: str) -> tuple[str, str, str]:
    """Why a delivery waits while others go to its receiver."""
    others = "1 other delivery" if line.under_way == 1 else f"{line.under_way} other deliveries"
    verb = "is" if line.under_way == 1 else "are"
    answer = f"{subject} waits for its turn: {others} to its receiver {verb} under way"
    then = f"it is sent when the limits of its receiver let it go{obstacles}"
    return "limited", answer, then


def _stopped(facts: MessageFacts, endpoint: Endpoint) -> Wait:
    """Why a message waits whose endpoint takes none now."""
    message, state = facts.message, endpoint_wait(endpoint, facts.now)
    _, subject = subject_of(facts)
    until, then = state.until, _part(state.next) + obstacles_text(facts.obstacles)
    if until is not None:  # It is not sent before its own time, either.
        until = max(until, message.visible_at)
    if state.code == DISABLED and facts.settings.push_to is None:
        until = message.sent_at + timedelta(seconds=facts.settings.retention_seconds)
        then = f"{then}; after {iso_second(until)} it becomes a dead letter"
    return _message_answer(
        facts,
        state.code,
        f"{subject} waits: {_part(state.answer)}",
        then,
        since=state.since or message_since(message),
        until=until,
        more=state.details,
    )


def _pushed_nowhere(facts: MessageFacts, name: str, subject: str) -> tuple[str, str, str]:
    create = f"`tickwork endpoints create {name}`"
    other = f"`tickwork queues update {facts.queue} --push-to ENDPOINT` names another one"
    obstacles = obstacles_text(facts.obstacles)
    answer = f"{subject} waits: its queue pushes to endpoint {name}, which does not exist"
    then = f"it is pushed when the endpoint exists: {create}, or {other}{obstacles}"
    return MISSING, answer, then


def _message_answer(
    facts: MessageFacts,
    code: str,
    answer: str,
    then: str,
    *,
    since: datetime,
    until: datetime | None,
    more: tuple[str, ...],
) -> Wait:
    message, expected = facts.message, facts.estimate if code == READY else None
    named = public_id(Prefix.MESSAGE, message.id)
    if facts.delivery is not None:
        named = public_id(Prefix.DELIVERY, facts.delivery.id)
    return Wait(
        kind=subject_of(facts)[0],
        id=named,
        code=code,
        answer=sentence(answer),
        next=sentence(then),
        since=since,
        until=until,
        correlation_id=message.correlation,
        details=(
            *_death_details(read_death(message.death)),
            *_attempt_details(message, facts.settings),
            *more,
            *_pull_note(facts),
            *(() if expected is None else estimate_words(expected)),
            *_unread_note(facts.unread),
        ),
        estimate=expected,
    )


RELEASED = "it is released soon, and another worker runs it"


def _pull_note(facts: MessageFacts) -> tuple[str, ...]:
    if not facts.is_pulled:
        return ()
    if facts.pulled_at is None:
        return (f"no consumer has pulled from queue {facts.queue} yet",)
    return (f"queue {facts.queue} was last pulled from at {iso_second(facts.pulled_at)}",)


def message_since(message: Message) -> datetime:
    """Since when a message is in its state, as far as it is stored."""
    if message.waits_since is not None:
        return message.waits_since
    return message.claimed_at or message.sent_at


WHO_WAITS = "direct calls do not wait for it, later sends do"


def _claimed(facts: MessageFacts, subject: str) -> tuple[str, str, str, datetime | None]:
    if facts.holder is not None and not facts.is_holder_alive:
        answer, then = f"{subject} was claimed by {facts.holder}, whose lease expired", RELEASED
        if facts.is_direct:
            then = "it is deleted soon: nobody waits for its result"
        return "lost", answer, then, None
    if facts.is_direct:
        then = "its caller gets the result, or its error; it is not retried"
        if facts.lease_until is not None:
            then += f". If {facts.holder} dies, the entity is free when its lease has ended"
        answer = f"{subject} runs on {facts.holder or 'a node that is gone'}, which made it"
        return "running", answer, then, facts.lease_until
    holder = facts.holder or "a consumer that pulled it"
    until, seconds = None, facts.settings.timeout_seconds
    if seconds < FOREVER_SECONDS and facts.message.claimed_at is not None:
        until = facts.message.claimed_at + timedelta(seconds=seconds)
    left = facts.settings.max_retries - facts.message.attempts
    then = "it is acked; if it fails it becomes a dead letter"
    if left > 0:
        then = f"it is acked; if it fails it is retried, up to {_counted(left, 'more time')}"
    return "running", f"{subject} is being handled by {holder}", then, until


def _attempt_details(message: Message, settings: QueueSettings) -> list[str]:
    found = []
    if message.attempts:
        found.append(f"{message.attempts} of {settings.max_retries + 1} attempts failed")
    if message.lost:
        found.append(f"{_counted(message.lost, 'worker')} died with it")
    if message.last_error and message.limited_by is None:
        found.append(f"the last error: {short_error(message.last_error)}")
    return found


def _death_details(death: Death | None) -> list[str]:
    """What a message in a dead-letter queue died of, and where all of it is recorded."""
    if death is None:
        return []
    named = death.dead_letter_id
    found = [] if death.error is None else [_its_error(death.error)]
    return [*found, f"its dead letter is {named}: `tickwork dead show {named}`"]


def _its_error(text: str) -> str:
    return f"its error: {short_error(text)}"


READY = "ready"
"""Code of a message that waits for a worker or a consumer."""

DISABLED = "endpoint_disabled"
BREAKER_OPEN = "breaker_open"
MISSING = "endpoint_missing"
UNREADABLE = "secrets_unreadable"
"""Codes of an endpoint that takes no deliveries, and of what waits for it."""


OTHERS_FOLLOW = "the others follow when they are due"


def is_stopped(endpoint: Endpoint) -> bool:
    """Whether deliveries to an endpoint wait for it."""
    return endpoint.disabled_at is not None or endpoint.health.open_until is not None


def _unread_note(unread: Unread | None) -> tuple[str, ...]:
    if unread is None or unread.if_lost is not None:
        return ()
    return (f"whether its secrets can be read is unknown here: {unread.error}",)


def endpoint_wait(endpoint: Endpoint, now: datetime, unread: Unread | None = None) -> Wait:
    """What keeps an endpoint from taking deliveries, if anything."""
    name = endpoint.name
    health = endpoint.health
    since = endpoint.health.failing_since
    until = None
    failures = f"{_counted(health.failures_in_row, 'attempt')} in a row failed"
    if endpoint.disabled_at is not None:
        code, since = DISABLED, endpoint.disabled_at
        reason = endpoint.disabled_reason or "no reason was given"
        answer = f"endpoint {name} is disabled ({short_error(reason)})"
        then = f"deliveries go on when it is enabled: `tickwork endpoints enable {name}`"
    elif health.open_until is not None and health.open_until > now:
        code, until = BREAKER_OPEN, health.open_until
        answer = f"the breaker of endpoint {name} is open: {failures}"
        then = (
            f"one delivery is tried at {iso_second(until)}; if it arrives, {OTHERS_FOLLOW}; "
            f"`tickwork endpoints enable {name}` goes on at once"
        )
    elif health.open_until is not None:
        code = BREAKER_OPEN
        answer = f"the breaker of endpoint {name} lets one delivery through: {failures}"
        then = f"if it arrives, {OTHERS_FOLLOW}"
    elif unread is not None and unread.if_lost is not None:
        code, answer = UNREADABLE, f"deliveries to endpoint {name} wait: {unread.what}"
        then = f"workers try again every minute; {unread.remedy}"
    else:
        code, answer = "active", f"endpoint {name} takes deliveries"
        then = "events of its types are delivered when they are published"
    return Wait(
        kind="endpoint",
        id=public_id(Prefix.ENDPOINT, endpoint.id),
        code=code,
        answer=sentence(answer),
        next=sentence(then),
        since=since,
        until=until,
        details=(
            *([failures] if code != BREAKER_OPEN and health.failures_in_row else ()),
            *_unread_note(unread),
        ),
    )


def delivery_end(
    delivery: EndpointDelivery,
    endpoint: Endpoint | None,
    letter: StoredDeadLetter | None,
    *,
    is_sent_once: bool = False,
) -> Wait:
    """What became of a delivery that does not wait. `letter` is its dead letter."""
    subject = delivery_words(delivery, endpoint)
    since = delivery.delivered_at
    details = []
    resend = f"`tickwork deliveries resend {public_id(Prefix.DELIVERY, delivery.id)}`"
    tries = _counted(delivery.attempts, "attempt")
    code = str(delivery.status)
    if delivery.status is DeliveryStatus.DELIVERED and since is not None:
        status = "" if delivery.last_code is None else f", status {delivery.last_code}"
        if delivery.last_error is not None:
            status, details = "", [f"a later resend failed: {short_error(delivery.last_error)}"]
        answer = f"{subject} arrived at {iso_second(since)} ({tries}{status})"
        then = f"nothing; {resend} sends it again"
    else:
        since = delivery.last_attempt_at if letter is None else letter.failed_at
        answer = f"{subject} died after {tries}"
        if letter is not None:
            answer += f" ({letter.reason})"
        then = f"nothing: {resend} sends it again"
        if endpoint is None:
            then = "nothing: there is no endpoint to send it to"
        elif is_sent_once:
            then = "nothing: it is sent at most once; trigger its schedule to send a new one"
        elif endpoint.disabled_at is not None:
            then += f" after `tickwork endpoints enable {endpoint.name}`"
        error = delivery.last_error if letter is None else letter.error or delivery.last_error
        details += [] if error is None else [f"the last error: {short_error(error)}"]
    return Wait(
        kind="delivery",
        id=public_id(Prefix.DELIVERY, delivery.id),
        code=code,
        answer=sentence(answer),
        next=sentence(then),
        since=since,
        correlation_id=None if letter is None else letter.correlation,
        details=tuple(details),
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _part(sentence: str) -> str:
    """A sentence as part of another one."""
    return f"{sentence[:1].lower()}{sentence[1:]}".removesuffix(".")


def dead_letter_wait(letter: StoredDeadLetter, queue: str) -> Wait:
    """Why a dead letter waits."""
    answer = f"the message died in queue {queue} ({letter.reason})"
    which = f"{queue} --id {public_id(Prefix.DEAD_LETTER, letter.id)}"
    replay, discard = f"`tickwork dead replay {which}`", f"`tickwork dead discard {which}`"
    then = f"nothing, until {replay} or {discard}; or retention deletes it"
    if letter.replayed_as is not None:
        then = f"it was replayed as {public_id(Prefix.MESSAGE, letter.replayed_as)}"
    elif letter.resolution is not None:
        then = f"nothing: it is {letter.resolution}"
    details = [] if letter.error is None else [_its_error(letter.error)]
    if (before := letter.died) is not None:
        error = "" if before.error is None else f": {short_error(before.error)}"
        details.append(f"before, it {death_words(before)}{error}")
    return Wait(
        kind="dead_letter",
        id=public_id(Prefix.DEAD_LETTER, letter.id),
        code="dead",
        answer=sentence(answer),
        next=sentence(then),
        since=letter.failed_at,
        correlation_id=letter.correlation,
        details=tuple(details),
    )


_ENDED = {
    Outcome.DEAD: "died",
    Outcome.EXPIRED: "expired",
    Outcome.DISCARDED: "was discarded",
}


def ended_wait(record: HistoryRecord) -> Wait:
    """What became of a message that has ended."""
    at = iso_second(record.ended_at)
    if record.outcome is Outcome.DONE:
        ran = f"{_counted(record.attempts, 'attempt')}, {record.duration_seconds or 0.0:.3g} s"
        where = "" if record.node is None else f" by {record.node}"
        answer = f"it was handled at {at}{where} ({ran})"
    else:
        answer = f"it {_ENDED[record.outcome]} at {at} ({record.reason})"
    return Wait(
        kind="message",
        id=record.id,
        code=str(record.outcome),
        answer=sentence(f"message {record.id} of queue {record.queue}: {answer}"),
        next=sentence(f"nothing; `tickwork history show {record.id}` shows its record"),
        since=record.ended_at,
        correlation_id=record.correlation_id or record.id,
    )


def obstacles_text(found: Sequence[str]) -> str:
    """What keeps something from going on, as part of a sentence."""
    return f" ({'; '.join(found)})" if found else ""


def short_error(text: str) -> str:
    """The summary of an error, as lists of dead letters show it."""
    line = summary_line(text)
    return line if len(line) <= _ERROR_LENGTH_MAX else f"{line[: _ERROR_LENGTH_MAX - 1]}…"


def sentence(words: str) -> str:
    """Words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."
