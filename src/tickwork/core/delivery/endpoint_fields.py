"""Reads what a user gives for an endpoint or an event, and reports all faults at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from tickwork.core.delivery.breaker import HealthEvent
from tickwork.core.delivery.endpoint import RETRIES_MAX, TYPES_MAX, EndpointSettings
from tickwork.core.delivery.headers import check_headers
from tickwork.core.delivery.signature import SIGNATURES
from tickwork.core.delivery.target import TIMEOUT_SECONDS_MAX, first_byte_fault
from tickwork.core.fields import FieldReader, Reader, shown
from tickwork.core.limits import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.message.subscription import PATTERN_LENGTH_MAX, pattern_faults
from tickwork.core.message.system_events import SYSTEM_TYPES
from tickwork.core.options import EndpointFields, names_of
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.core.schedule.fields import parse_id
from tickwork.errors import FieldError, InvalidInput

METHODS = ("POST", "PUT", "PATCH")
CONCURRENCY_MAX = 10_000
RETRY_SECONDS_MAX = 7 * 86_400
_STATUS_MIN, _STATUS_MAX = 300, 599
_NO_TYPES = "; give some, * for all published events, or an empty list for none"
_OWN_TYPES = frozenset({*SYSTEM_TYPES, *HealthEvent})


class GivenEndpoint(Struct, frozen=True):
    """The settings of an endpoint, and the values of its secret headers; None if none were
    given."""

    settings: EndpointSettings
    secrets: Mapping[str, str] | None = None


def read_name(name: object) -> str:
    """The name of an endpoint. Raises `InvalidInput`."""
    faults: list[FieldError] = []
    text = Reader({"name": name}, faults).text("name")
    if text is not None:
        faults += text_faults("name", text, NAME_LENGTH_MAX)
        if not faults and not text.isprintable():
            faults.append(FieldError("name", "must have printable characters only"))
        if not faults and parse_id(text) is not None:
            faults.append(FieldError("name", "must not be an id; choose a name such as billing"))
    if faults or text is None:
        raise InvalidInput(faults)
    return text


def read_endpoint(fields: Mapping[str, object]) -> GivenEndpoint:
    """A new endpoint. Raises `InvalidInput` with all faults."""
    return _read({}, fields)


def read_changes(settings: EndpointSettings, fields: Mapping[str, object]) -> GivenEndpoint:
    """An endpoint after a change: only the given fields change, None means the default again.
    Raises `InvalidInput` with all faults."""
    return _read(structs.asdict(settings), fields)


def check_event_type(event_type: object) -> None:
    """Raises `InvalidInput` for what cannot be the type of a published event."""
    faults: list[FieldError] = []
    text = Reader({"type": event_type}, faults).text("type")
    if text is not None:
        faults += text_faults("type", text, PATTERN_LENGTH_MAX)
        if "*" in text:
            faults.append(FieldError("type", "must not contain *; only the types of endpoints may"))
        if text in _OWN_TYPES:
            faults.append(FieldError("type", f"{text} is published by Tickwork; choose another"))
    if faults:
        raise InvalidInput(faults)


def check_owner(owner: object) -> None:
    """Raises `InvalidInput` for what cannot be an owner."""
    faults: list[FieldError] = []
    if owner is not None:
        _text(NAME_LENGTH_MAX)(Reader({"owner": owner}, faults), "owner")
    if faults:
        raise InvalidInput(faults)


def _read(stored: dict[str, Any], fields: Mapping[str, object]) -> GivenEndpoint:
    faults: list[FieldError] = []
    reader = Reader(fields, faults)
    reader.refuse_unknown(_READERS.keys())
    for name, advice in (("url", ""), ("types", _NO_TYPES)):
        if fields.get(name) is None and (not stored or name in fields):
            reader.fault(name, f"is missing{advice}")
    given = Reader({name: field for name, field in fields.items() if field is not None}, faults)
    values = given.read(_READERS)
    if faults:
        raise InvalidInput(faults)
    secrets = values.pop("secret_headers", None)
    if secrets is not None:
        values["secret_headers"] = tuple(secrets)
    kept = {
        name: value
        for name, value in stored.items()
        if name not in fields and not (name == "is_ordered" and "ordered" in fields)
    }
    if "ordered" in values:
        values["is_ordered"] = values.pop("ordered")
    settings = EndpointSettings(**kept, **values)
    _check_together(settings)
    return GivenEndpoint(settings, secrets)


def _check_together(settings: EndpointSettings) -> None:
    """Raises `InvalidInput` if fields do not fit each other."""
    plain = {name.lower() for name in settings.headers}
    faults = [
        FieldError(f"secret_headers.{name}", "is also in headers; give it once")
        for name in settings.secret_headers
        if name.lower() in plain
    ]
    if fault := first_byte_fault(settings.first_byte_seconds, settings.timeout_seconds):
        faults.append(FieldError("first_byte_seconds", fault))
    if faults:
        raise InvalidInput(faults)


def _text(length_max: int) -> FieldReader:
    def read(reader: Reader, name: str) -> str | None:
        text = reader.text(name)
        if text is not None:
            reader.faults.extend(text_faults(name, text, length_max))
        return text

    return read


def _types(reader: Reader, name: str) -> tuple[str, ...]:
    value = reader.value(name)
    types = (value,) if isinstance(value, str) else value
    if not isinstance(types, list | tuple | set | frozenset) or len(types) > TYPES_MAX:
        reader.fault(name, f"must be at most {TYPES_MAX} types such as order.paid or order.*")
        return ()
    for index, type_ in enumerate(types):
        if not isinstance(type_, str):
            reader.fault(f"{name}[{index}]", f"must be a text, not {shown(type_)}")
            continue
        for fault in pattern_faults(type_):
            reader.fault(f"{name}[{index}]", fault.message)
    return tuple(dict.fromkeys(map(str, types)))


def _headers(reader: Reader, name: str) -> dict[str, str] | None:
    given = reader.value(name)
    if not isinstance(given, Mapping):
        # The value is not shown: it may be secret.
        reader.fault(name, "must be an object of texts, such as {'X-Shop': 'a'}")
        return None
    try:
        check_headers(given, field=name)
    except InvalidInput as error:
        reader.faults.extend(error.errors)
        return None
    return dict(given)


def _rate(reader: Reader, name: str) -> float | None:
    return reader.number_between(name, RATE_MIN, RATE_MAX, "a number of deliveries")


def _retries(reader: Reader, name: str) -> tuple[float, ...] | None:
    seconds = reader.numbers(name)
    if seconds is None:
        return None
    if len(seconds) > RETRIES_MAX:
        reader.fault(name, f"must be at most {RETRIES_MAX} numbers of seconds")
    for index, second in enumerate(seconds):
        if not 0 <= second <= RETRY_SECONDS_MAX:
            reader.fault(f"{name}[{index}]", f"must be from 0 to {RETRY_SECONDS_MAX}")
    return seconds


def _statuses(reader: Reader, name: str) -> tuple[int, ...] | None:
    if reader.value(name) in ([], ()):
        return ()
    return reader.integers(name, _STATUS_MIN, _STATUS_MAX, "an HTTP status that is no success")


_READERS: dict[str, FieldReader] = {
    "url": lambda reader, name: reader.text(name),
    "types": _types,
    "owner": _text(NAME_LENGTH_MAX),
    "description": _text(TEXT_LENGTH_MAX),
    "method": lambda reader, name: reader.one_of(name, METHODS),
    "headers": _headers,
    "secret_headers": _headers,
    "ordered": lambda reader, name: reader.boolean(name),
    "rate_per_second": _rate,
    "concurrency": lambda reader, name: reader.integer(name, 1, CONCURRENCY_MAX),
    "limit": _text(NAME_LENGTH_MAX),
    "timeout_seconds": lambda reader, name: reader.integer(name, 1, TIMEOUT_SECONDS_MAX),
    "first_byte_seconds": lambda reader, name: reader.integer(name, 1, TIMEOUT_SECONDS_MAX),
    "retry_seconds": _retries,
    "permanent_statuses": _statuses,
    "signature": lambda reader, name: reader.one_of(name, SIGNATURES),
}
assert _READERS.keys() == names_of(EndpointFields)
