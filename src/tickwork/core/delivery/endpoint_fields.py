"""Reads what a user gives for an endpoint or an event, and reports all faults at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from tickwork.core.delivery.breaker import HealthEvent
from tickwork.core.delivery.endpoint import (
    RETRIES_MAX,
    TYPES_MAX,
    EndpointSettings,
    settings_faults,
)
from tickwork.core.delivery.headers import check_headers
from tickwork.core.fields import NAME_LENGTH_MAX, Reader, shown, text_faults
from tickwork.core.message.subscription import PATTERN_LENGTH_MAX, pattern_faults
from tickwork.core.message.system_events import SYSTEM_TYPES
from tickwork.core.options.declared import readers_of
from tickwork.core.options.endpoint import EndpointFields
from tickwork.core.schedule.fields import parse_id
from tickwork.errors import FieldError, InvalidInput

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
        _READERS["owner"](Reader({"owner": owner}, faults), "owner")
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
    kept = {name: value for name, value in stored.items() if name not in fields}
    settings = EndpointSettings(**kept, **values)
    if together := settings_faults(settings):
        raise InvalidInput(together)
    return GivenEndpoint(settings, secrets)


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


_READERS = readers_of(
    EndpointFields,
    {
        "types": _types,
        "headers": _headers,
        "secret_headers": _headers,
        "retry_seconds": _retries,
        "permanent_statuses": _statuses,
    },
)
