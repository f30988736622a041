"""Limits of messages, queues, claims and batches, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import NoneType
from uuid import UUID

from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, shown, text_faults
from tickwork.core.message.batch import BATCH_ITEMS_MAX, NewBatch
from tickwork.core.message.dead_letter import DEAD_LETTERS_AT_ONCE_MAX, Pace, Selection
from tickwork.core.message.subscription import pattern_faults
from tickwork.core.model import (
    BatchWithItems,
    Claim,
    ClaimRequest,
    Ending,
    Message,
    NewMessage,
    Scope,
    Settlement,
    StoredQueue,
)
from tickwork.errors import FieldError, InvalidInput

BODY_BYTES_MAX = 128_000
BATCH_MESSAGES_MAX = 10_000
BATCH_BYTES_MAX = 16_000_000
DELAY_SECONDS_MAX = 365 * 86_400
ERROR_LENGTH_MAX = 10_000
HOPS_MAX = 32
CLAIM_LIMIT_MAX = 1_000
LEASE_SECONDS_MAX = 12 * 3600
RETENTION_SECONDS_MAX = 14 * 86_400
TIMEOUT_SECONDS_MAX = 86_400
LIST_LIMIT_MAX = 10_000
TTL_SECONDS_MAX = 86_400
RUN_MAX = 2**31 - 1
CLAIM_NUMBER_MAX = 2**63 - 1
CLAIMED_MAX = 1_000_000
BACKLOG_BYTES_MAX = 10**15
ENDPOINTS_MAX = 1_000
"""Maximum number of endpoints of a tenant."""

EXCERPT_LENGTH_MAX = 2_000
HIDDEN_QUEUES = frozenset({"tickwork.alerts", "tickwork.deliveries", "tickwork.endpoints"})
"""Queues that Tickwork itself uses. Nobody else sends to them: their messages are orders to
deliver, which were checked when they were made."""

RUNS_QUEUE_PREFIX = "tickwork.workflows."
"""Start of the names of the hidden queues in which runs of workflows wait."""

FOREVER_SECONDS = 50 * 365 * 86_400
"""Seconds that stand for no limit in the settings of a hidden queue."""

TYPE_LENGTH_MAX = 100
"""Characters of the name of an entity type, and of a method."""

ENTITIES_PREFIX = "tickwork.entities."
"""Start of the names of the hidden queues of entities, one for each type."""

ENDING_ITEMS_MAX = 10_000
"""Maximum number of items in all batches of one ending, which are stored in one transaction. An
empty batch counts as one item."""

ENDING_ITEMS_BYTES_MAX = 64_000_000
"""Maximum number of bytes of these items."""

_TEXTS = ("key", "event_id", "type", "source", "correlation_id", "causation_id")
_SECONDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("delay_seconds", (int, float)),
    ("expires_after_seconds", (int, float, NoneType)),
)


def check_message(message: NewMessage) -> None:
    """Raises `InvalidInput` for a message that cannot be stored."""
    if not _is_simple_message(message):
        faults = list(_message_faults(message, ""))
        if faults:
            raise InvalidInput(faults)


def _is_simple_message(m: NewMessage) -> bool:
    """Whether a message is so simple that it needs no further checks. Most are, and a bulk send
    checks a million of them."""
    return (
        type(m.body) is bytes
        and len(m.body) <= BODY_BYTES_MAX
        and m.delay_seconds == 0
        and m.priority == 4
        and type(m.priority) is int
        and m.hops == m.run == 0
        and type(m.hops) is int
        and type(m.run) is int
        and m.slot is None
        and m.expires_after_seconds is None
        and m.key is m.event_id is m.correlation_id is m.causation_id is None
        and (m.type is None or _is_simple_text(m.type))
        and (m.source is None or _is_simple_text(m.source))
    )


def _is_simple_text(text: str) -> bool:
    return (
        type(text) is str
        and 0 < len(text) <= TEXT_LENGTH_MAX
        and text.isascii()
        and "\0" not in text
    )


def check_batch(messages: Sequence[NewMessage]) -> None:
    """Raises `InvalidInput` for messages that cannot be stored together."""
    faults: list[FieldError] = []
    if len(messages) > BATCH_MESSAGES_MAX:
        faults.append(
            FieldError("messages", f"has {len(messages)} messages; at most {BATCH_MESSAGES_MAX}")
        )
    total = sum(len(message.body) for message in messages)
    if total > BATCH_BYTES_MAX:
        faults.append(
            FieldError("messages", f"has {total} bytes; at most {BATCH_BYTES_MAX}; send references")
        )
    for index, message in enumerate(messages[:BATCH_MESSAGES_MAX]):
        if not _is_simple_message(message):
            faults.extend(_message_faults(message, f"messages[{index}]."))
    if faults:
        raise InvalidInput(faults)


def is_hidden(queue: str) -> bool:
    """Whether only Tickwork itself uses a queue."""
    return queue in HIDDEN_QUEUES or queue.startswith((RUNS_QUEUE_PREFIX, ENTITIES_PREFIX))


def is_pulled(queue: StoredQueue) -> bool:
    """Whether consumers may pull from a queue: no app, endpoint or part of Tickwork consumes
    it."""
    is_consumed = queue.declared_by is not None or queue.settings.push_to is not None
    return not is_consumed and not is_hidden(queue.name)


def hidden_queue_faults(field: str, queue: str) -> list[FieldError]:
    """The fault of a queue that only Tickwork itself may send to."""
    if not is_hidden(queue):
        return []
    return [FieldError(field, f"{queue} is used by Tickwork itself; choose another queue")]


def check_not_hidden(queue: str, field: str = "queue") -> None:
    """Raises `InvalidInput` for a queue that only Tickwork itself may send to."""
    if is_hidden(queue):
        raise InvalidInput(hidden_queue_faults(field, queue))


def check_claim(request: ClaimRequest) -> None:
    """Raises `InvalidInput` for a claim request that is out of range."""
    faults: list[FieldError] = []
    if not 1 <= request.limit <= CLAIM_LIMIT_MAX:
        faults.append(FieldError("limit", f"must be from 1 to {CLAIM_LIMIT_MAX}"))
    if request.lease_seconds is not None:
        faults += lease_faults(request.lease_seconds)
    if faults:
        raise InvalidInput(faults)


def check_settlement(settlement: Settlement) -> None:
    """Raises `InvalidInput` for a settlement that cannot be stored."""
    faults: list[FieldError] = []
    for index, ending in enumerate(settlement.endings):
        if not _is_simple_ending(ending):
            faults.extend(_ending_faults(ending, f"endings[{index}]."))
    if faults:
        raise InvalidInput(faults)


def check_limit(limit: int) -> None:
    """Raises `InvalidInput` for a list limit that is out of range."""
    if not 1 <= limit <= LIST_LIMIT_MAX:
        raise InvalidInput([FieldError("limit", f"must be from 1 to {LIST_LIMIT_MAX}")])


def check_node(name: str, roles: Sequence[str]) -> None:
    """Raises `InvalidInput` for a node with an invalid name or roles."""
    faults = text_faults("name", name, NAME_LENGTH_MAX)
    for index, role in enumerate(roles):
        faults += text_faults(f"roles[{index}]", role, NAME_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def check_ttl(ttl_seconds: float) -> None:
    """Raises `InvalidInput` for a node lease that is out of range."""
    if not 0 < ttl_seconds <= TTL_SECONDS_MAX:
        fault = FieldError("ttl_seconds", f"must be above 0 and at most {TTL_SECONDS_MAX}")
        raise InvalidInput([fault])


def check_system(scope: Scope) -> None:
    """Raises `InvalidInput` unless the scope is the system."""
    if not scope.is_system:
        raise InvalidInput([FieldError("scope", "must be the system: a tenant may not do this")])


def check_new_batch(batch: NewBatch) -> None:
    """Raises `InvalidInput` for a batch with an invalid queue name."""
    faults = text_faults("queue", batch.queue, NAME_LENGTH_MAX)
    if batch.completion_queue is not None:
        faults += text_faults("completion_queue", batch.completion_queue, NAME_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def check_ending_items(items: int, items_bytes: int) -> None:
    """Raises `InvalidInput` if the batches of one handler have too many items together."""
    for count, most, what in (
        (items, ENDING_ITEMS_MAX, "items"),
        (items_bytes, ENDING_ITEMS_BYTES_MAX, "bytes of items"),
    ):
        if count > most:
            fault = (
                f"the batches of one handler may have at most {most} {what}, because they commit "
                "with its message; use app.batch(…, detached=True) for more"
            )
            raise InvalidInput([FieldError("items", fault)])


def check_item(item: NewMessage, index: int) -> None:
    """Raises `InvalidInput` for an item that cannot be stored; the error names its index."""
    if not _is_simple_message(item):
        faults = list(_message_faults(item, f"items[{index}]."))
        if faults:
            raise InvalidInput(faults)


def check_item_count(items: int) -> None:
    """Raises `InvalidInput` for too many items in a batch."""
    if items > BATCH_ITEMS_MAX:
        raise InvalidInput([FieldError("items", f"must be at most {BATCH_ITEMS_MAX}")])


def check_subscription(types: str) -> None:
    """Raises `InvalidInput` for an invalid pattern."""
    faults = [*pattern_faults(types)]
    if faults:
        raise InvalidInput(faults)


def check_selection(selection: Selection) -> None:
    """Raises `InvalidInput` for a selection of too many dead letters, or one that contradicts
    itself."""
    faults: list[FieldError] = []
    if not 1 <= selection.limit <= DEAD_LETTERS_AT_ONCE_MAX:
        faults.append(FieldError("limit", f"must be from 1 to {DEAD_LETTERS_AT_ONCE_MAX}"))
    if selection.ids is not None and len(selection.ids) > DEAD_LETTERS_AT_ONCE_MAX:
        faults.append(FieldError("ids", f"must be at most {DEAD_LETTERS_AT_ONCE_MAX}"))
    if selection.no_type and selection.type is not None:
        faults.append(FieldError("no_type", "excludes type; give one of them"))
    for field in ("reason", "fingerprint", "type"):
        length = len(getattr(selection, field) or "")
        if length > TEXT_LENGTH_MAX:
            fault = f"must have at most {TEXT_LENGTH_MAX} characters, not {length}"
            faults.append(FieldError(field, fault))
    if faults:
        raise InvalidInput(faults)


def check_pace(pace: Pace, dead_letters: int) -> None:
    """Raises `InvalidInput` for a replay whose last message would be delayed too long."""
    faults = [
        FieldError(field, "must not be negative")
        for field in ("first_after_seconds", "spacing_seconds")
        if not getattr(pace, field) >= 0
    ]
    if not faults:
        last = pace.first_after_seconds + pace.spacing_seconds * dead_letters
        if last > DELAY_SECONDS_MAX:
            fault = f"delays the last message by {last:g} seconds; at most {DELAY_SECONDS_MAX}"
            faults.append(FieldError("spacing_seconds", fault))
    if faults:
        raise InvalidInput(faults)


def check_body(body: bytes) -> None:
    """Raises `InvalidInput` for a body that cannot be stored."""
    check_message(NewMessage(id=UUID(int=0), body=body))


@lru_cache(maxsize=1_024)
def is_name(text: str) -> bool:
    """Whether a name is valid. Stores do not look for a name that is not."""
    return not text_faults("name", text, NAME_LENGTH_MAX)


def is_possible_claim(claim: Claim) -> bool:
    """Whether a store can have issued this claim."""
    return 0 < claim.number <= CLAIM_NUMBER_MAX and is_name(claim.tenant)


def is_own_claim(scope: Scope, claim: Claim) -> bool:
    """Whether a scope can have this claim."""
    return is_possible_claim(claim) and (scope.is_system or claim.tenant == scope.tenant)


def is_next_claim(scope: Scope, message: Message, claim: Claim) -> bool:
    """Whether a claim is the one that a message would get next, and the scope may have it."""
    is_own = scope.is_system or claim.tenant == scope.tenant
    is_next = (claim.tenant, claim.id, claim.number) == (
        message.tenant,
        message.id,
        message.claim + 1,
    )
    return is_own and is_next and is_possible_claim(claim)


def lease_faults(lease_seconds: float) -> list[FieldError]:
    """Errors of the length of a pull lease."""
    if 0 <= lease_seconds <= LEASE_SECONDS_MAX:
        return []
    return [FieldError("lease_seconds", f"must be from 0 to {LEASE_SECONDS_MAX}")]


def _is_simple_ending(ending: Ending) -> bool:
    """Whether an ending is so simple that it needs no further checks. Most are."""
    return (
        ending.delay_seconds == 0
        and ending.reason is ending.error is None
        and not ending.effects
        and not ending.sends
        and not ending.batches
    )


def _ending_faults(ending: Ending, prefix: str) -> Iterator[FieldError]:
    if not 0 <= ending.delay_seconds <= DELAY_SECONDS_MAX:
        yield FieldError(f"{prefix}delay_seconds", f"must be from 0 to {DELAY_SECONDS_MAX}")
    if ending.reason is not None:
        yield from text_faults(f"{prefix}reason", ending.reason, NAME_LENGTH_MAX)
    if ending.error is not None:
        yield from text_faults(f"{prefix}error", ending.error, ERROR_LENGTH_MAX)
    for index, send in enumerate(ending.sends):
        yield from _message_faults(send.message, f"{prefix}sends[{index}].")
    yield from _batches_faults(ending.batches, prefix)
    for effect in ending.effects:
        yield from effect.faults(prefix)


def _batches_faults(batches: Sequence[BatchWithItems], prefix: str) -> Iterator[FieldError]:
    if sum(len(batch.items) or 1 for batch in batches) > ENDING_ITEMS_MAX:
        yield FieldError(f"{prefix}batches", f"have more than {ENDING_ITEMS_MAX} items together")
        return
    for number, batch in enumerate(batches):
        at = f"{prefix}batches[{number}]."
        for field, name in (("queue", batch.queue), ("completion_queue", batch.completion_queue)):
            if name is not None:
                yield from text_faults(f"{at}{field}", name, NAME_LENGTH_MAX)
        for index, item in enumerate(batch.items):
            if not _is_simple_message(item):
                yield from _message_faults(item, f"{at}items[{index}].")


def _message_faults(message: NewMessage, prefix: str) -> Iterator[FieldError]:
    # A value of a wrong type would fail only in the database, and fail the whole batch.
    if type(message.body) is not bytes:
        yield FieldError(f"{prefix}body", f"must be bytes, not {type(message.body).__name__}")
        return
    for field in ("priority", "hops", "run"):
        if type(value := getattr(message, field)) is not int:
            yield FieldError(f"{prefix}{field}", f"must be a whole number, not {shown(value)}")
            return
    for field, kinds in _SECONDS:
        if not isinstance(value := getattr(message, field), kinds):
            fault = f"must be a number of seconds, not {shown(value)}"
            yield FieldError(f"{prefix}{field}", fault)
            return
    if len(message.body) > BODY_BYTES_MAX:
        yield FieldError(
            f"{prefix}body",
            f"has {len(message.body)} bytes; at most {BODY_BYTES_MAX}; send a reference instead",
        )
    if not 0 <= message.delay_seconds <= DELAY_SECONDS_MAX:
        yield FieldError(f"{prefix}delay_seconds", f"must be from 0 to {DELAY_SECONDS_MAX}")
    if not 0 <= message.priority <= 9:
        yield FieldError(f"{prefix}priority", f"must be from 0 to 9, not {message.priority}")
    if not 0 <= message.hops <= HOPS_MAX:
        yield FieldError(f"{prefix}hops", f"must be from 0 to {HOPS_MAX}, not {message.hops}")
    if not 0 <= message.run <= RUN_MAX:
        yield FieldError(f"{prefix}run", f"must be from 0 to {RUN_MAX}, not {message.run}")
    if message.slot is not None and message.slot.tzinfo is None:
        yield FieldError(f"{prefix}slot", "must have a time zone")
    expiry = message.expires_after_seconds
    if expiry is not None and not 0 < expiry <= DELAY_SECONDS_MAX:
        yield FieldError(
            f"{prefix}expires_after_seconds", f"must be above 0 and at most {DELAY_SECONDS_MAX}"
        )
    for field in _TEXTS:
        text = getattr(message, field)
        if isinstance(text, str):
            limit = NAME_LENGTH_MAX if field == "key" else TEXT_LENGTH_MAX
            yield from text_faults(f"{prefix}{field}", text, limit)
        elif text is not None:
            yield FieldError(f"{prefix}{field}", f"must be a text, not {shown(text)}")
