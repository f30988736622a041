"""What a message may be: sizes, ranges and characters, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tickwork.core.model import (
    ClaimRequest,
    Ending,
    Held,
    NewMessage,
    QueueSettings,
    Scope,
    Settlement,
    Tenant,
)
from tickwork.errors import FieldError, InvalidInput

BODY_BYTES_MAX = 128_000
BATCH_MESSAGES_MAX = 100
BATCH_BYTES_MAX = 256_000
DELAY_SECONDS_MAX = 365 * 86_400
NAME_LENGTH_MAX = 120
TEXT_LENGTH_MAX = 512
ERROR_LENGTH_MAX = 10_000
HOPS_MAX = 32
CLAIM_LIMIT_MAX = 1_000
LEASE_SECONDS_MAX = 12 * 3600
RETENTION_SECONDS_MAX = 14 * 86_400
LIST_LIMIT_MAX = 10_000
TTL_SECONDS_MAX = 86_400
RUN_MAX = 2**31 - 1
CLAIM_NUMBER_MAX = 2**63 - 1

_TEXTS = ("key", "event_id", "type", "source", "correlation_id", "causation_id")


def check_message(message: NewMessage) -> None:
    """Raises `InvalidInput` for a message that may not be stored."""
    faults = list(_message_faults(message, ""))
    if faults:
        raise InvalidInput(faults)


def check_batch(messages: Sequence[NewMessage]) -> None:
    """Raises `InvalidInput` for a batch that may not be stored; nothing of it is."""
    faults: list[FieldError] = []
    if len(messages) > BATCH_MESSAGES_MAX:
        faults.append(
            FieldError("messages", f"has {len(messages)}; at most {BATCH_MESSAGES_MAX} at once")
        )
    total = sum(len(message.body) for message in messages)
    if total > BATCH_BYTES_MAX:
        faults.append(
            FieldError("messages", f"has {total} bytes; at most {BATCH_BYTES_MAX}: send references")
        )
    for index, message in enumerate(messages[:BATCH_MESSAGES_MAX]):
        faults.extend(_message_faults(message, f"messages[{index}]."))
    if faults:
        raise InvalidInput(faults)


def check_queue(name: str, settings: QueueSettings) -> None:
    """Raises `InvalidInput` for a queue that may not exist."""
    faults = [*_text_faults("name", name, NAME_LENGTH_MAX)]
    for field, value, low, high in (
        ("max_batch_size", settings.max_batch_size, 1, 100),
        ("max_batch_timeout_seconds", settings.max_batch_timeout_seconds, 0, 60),
        ("max_retries", settings.max_retries, 0, 100),
        ("retention_seconds", settings.retention_seconds, 60, RETENTION_SECONDS_MAX),
        ("visibility_timeout_seconds", settings.visibility_timeout_seconds, 0, LEASE_SECONDS_MAX),
        ("timeout_seconds", settings.timeout_seconds, 1, 86_400),
    ):
        if not low <= value <= high:
            faults.append(FieldError(field, f"must be from {low} to {high}, not {value}"))
    if settings.dead_letter_queue is not None:
        faults += _text_faults("dead_letter_queue", settings.dead_letter_queue, NAME_LENGTH_MAX)
        if settings.dead_letter_queue == name:
            faults.append(FieldError("dead_letter_queue", "must be another queue"))
    if faults:
        raise InvalidInput(faults)


def check_claim(request: ClaimRequest) -> None:
    """Raises `InvalidInput` for a claim that asks for too much or too little."""
    faults: list[FieldError] = []
    if not 1 <= request.limit <= CLAIM_LIMIT_MAX:
        faults.append(FieldError("limit", f"must be from 1 to {CLAIM_LIMIT_MAX}"))
    if request.lease_seconds is not None:
        faults += lease_faults(request.lease_seconds)
    if faults:
        raise InvalidInput(faults)


def check_settlement(settlement: Settlement) -> None:
    """Raises `InvalidInput` for a settlement that may not be carried out; nothing of it is."""
    faults: list[FieldError] = []
    for index, ending in enumerate(settlement.endings):
        faults.extend(_ending_faults(ending, f"endings[{index}]."))
    if faults:
        raise InvalidInput(faults)


def check_limit(limit: int) -> None:
    """Raises `InvalidInput` for a look at too many or at none."""
    if not 1 <= limit <= LIST_LIMIT_MAX:
        raise InvalidInput([FieldError("limit", f"must be from 1 to {LIST_LIMIT_MAX}")])


def check_node(name: str, roles: Sequence[str]) -> None:
    """Raises `InvalidInput` for a node that may not join."""
    faults = _text_faults("name", name, NAME_LENGTH_MAX)
    for index, role in enumerate(roles):
        faults += _text_faults(f"roles[{index}]", role, NAME_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def check_ttl(ttl_seconds: float) -> None:
    """Raises `InvalidInput` for a node's lease that would never begin, or not end in time."""
    if not 0 < ttl_seconds <= TTL_SECONDS_MAX:
        fault = FieldError("ttl_seconds", f"must be above 0 and at most {TTL_SECONDS_MAX}")
        raise InvalidInput([fault])


def is_name(text: str) -> bool:
    """Whether anything can have this name; what cannot exist need not be looked for."""
    return not _text_faults("name", text, NAME_LENGTH_MAX)


def can_be_held(held: Held) -> bool:
    """Whether a store can ever have handed this out."""
    return 0 < held.claim <= CLAIM_NUMBER_MAX and is_name(held.tenant)


def lease_faults(lease_seconds: float) -> list[FieldError]:
    """The faults of a pull lease's length."""
    if 0 <= lease_seconds <= LEASE_SECONDS_MAX:
        return []
    return [FieldError("lease_seconds", f"must be from 0 to {LEASE_SECONDS_MAX}")]


def _ending_faults(ending: Ending, prefix: str) -> Iterator[FieldError]:
    if not 0 <= ending.delay_seconds <= DELAY_SECONDS_MAX:
        yield FieldError(f"{prefix}delay_seconds", f"must be from 0 to {DELAY_SECONDS_MAX}")
    if ending.reason is not None:
        yield from _text_faults(f"{prefix}reason", ending.reason, NAME_LENGTH_MAX)
    if ending.error is not None:
        yield from _text_faults(f"{prefix}error", ending.error, ERROR_LENGTH_MAX)
    for index, send in enumerate(ending.sends):
        yield from _message_faults(send.message, f"{prefix}sends[{index}].")


def _message_faults(message: NewMessage, prefix: str) -> Iterator[FieldError]:
    # Types are checked where a wrong one would be found by a database, and by its neighbours.
    if type(message.body) is not bytes:
        yield FieldError(f"{prefix}body", f"must be bytes, not {type(message.body).__name__}")
        return
    for field in ("priority", "hops", "run"):
        if type(getattr(message, field)) is not int:
            yield FieldError(f"{prefix}{field}", "must be a whole number")
            return
    if len(message.body) > BODY_BYTES_MAX:
        yield FieldError(
            f"{prefix}body",
            f"has {len(message.body)} bytes; at most {BODY_BYTES_MAX}: send a reference instead",
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
        if text is not None:
            limit = NAME_LENGTH_MAX if field == "key" else TEXT_LENGTH_MAX
            yield from _text_faults(f"{prefix}{field}", text, limit)


def _text_faults(field: str, text: str, length_max: int) -> list[FieldError]:
    if not 1 <= len(text) <= length_max:
        return [FieldError(field, f"must have 1 to {length_max} characters, not {len(text)}")]
    if "\0" in text:
        return [FieldError(field, "must not contain a NUL character")]
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return [FieldError(field, "must be valid Unicode, without lone surrogates")]
    return []


def check_tenant(scope: Scope, tenant: Tenant) -> None:
    """Raises `InvalidInput` for a tenant that may not exist, or that this scope may not make."""
    faults = _text_faults("id", tenant.id, NAME_LENGTH_MAX)
    if not scope.is_system:
        faults.append(FieldError("id", "only the system may create or change tenants"))
    if not 1 <= tenant.weight <= 1_000:
        faults.append(FieldError("weight", f"must be from 1 to 1000, not {tenant.weight}"))
    if faults:
        raise InvalidInput(faults)
