"""Schedules from and to the JSON fields of the API.

`read_definition` returns a definition whose rule is known to fire, or raises `InvalidInput` with
every fault by field. `render_definition` is its inverse. `merge_patch` applies an update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core import when
from tickwork.core.answers.ids import parse_public_id
from tickwork.core.delivery.sealed import masked
from tickwork.core.delivery.target import (
    AT_MOST_ONCE,
    DELIVERIES_QUEUE,
    OUTSIDE_TYPES,
    EndpointTarget,
    Envelope,
    read_delivery,
    read_envelope,
    read_outside_target,
    render_target,
)
from tickwork.core.fields import TEXT_LENGTH_MAX, Reader, shown, text_faults
from tickwork.core.limits import hidden_queue_faults
from tickwork.core.message.backoff import Backoff, backoff_faults, read_backoff
from tickwork.core.message.body import decode_body, encode_json
from tickwork.core.options import QueueTargetFields, RetryOptions, ScheduleFields, names_of
from tickwork.core.schedule.entity_target import (
    TARGET_ENTITY,
    entity_body,
    is_entity_target,
    read_entity_target,
    render_entity_target,
)
from tickwork.core.schedule.firing import ResultTarget
from tickwork.core.schedule.model import (
    FIRED_TYPE,
    METADATA_BYTES_MAX,
    SCHEDULE_BODY_BYTES_MAX,
    Definition,
    OnDead,
    OverlapPolicy,
    Retry,
)
from tickwork.core.schedule.result_message import read_result_target
from tickwork.core.schedule.workflow_target import (
    TARGET_WORKFLOW,
    is_workflow_target,
    read_workflow_target,
    render_workflow_target,
)
from tickwork.errors import FieldError, InvalidInput

TARGET_QUEUE, TARGET_WEBHOOK = "queue", "webhook"
TARGET_TYPES = (TARGET_QUEUE, *OUTSIDE_TYPES, TARGET_ENTITY, TARGET_WORKFLOW)
ATTEMPTS_MAX = 101
"""Maximum number of attempts per firing: the first one and 100 retries."""

EXPIRES_SECONDS_MAX = 365 * 86_400
"""Maximum seconds after which an unstarted firing expires."""

PRIORITY_MAX = 9
"""Highest priority number."""

SCHEDULE_FIELDS = names_of(ScheduleFields)
RESULT_FIELDS = ("on_success", "on_failure")
"""Fields that name who gets the results of firings."""

_TARGET_FIELDS = names_of(QueueTargetFields)
_RETRY_FIELDS = names_of(RetryOptions)
_NAME_LENGTH_MAX = 120


def read_definition(
    fields: Mapping[str, object],
    *,
    schedule_id: UUID,
    created_at: datetime,
    calendars: Mapping[str, frozenset[date]],
    limits: when.Limits,
    is_known: bool = False,
) -> tuple[Definition, when.Rule]:
    """Reads a definition, and its rule with the days of its calendar.

    `is_known`: the schedule has this rule already, so it is not checked again.
    """
    faults: list[FieldError] = []
    reader = Reader(fields, faults)
    reader.refuse_unknown(SCHEDULE_FIELDS)
    if reader.has("target_url") and reader.has("target"):
        reader.fault("target_url", "is the short form of a webhook target; give one of the two")
    fields = with_target_url(fields)
    rule: when.Rule | None = None
    try:
        rule = when.parse(
            {name: value for name, value in fields.items() if name in when.RULE_FIELDS},
            created_at=created_at,
            seed=str(schedule_id),
            calendars=calendars,
            limits=limits,
            is_known=is_known,
        )
    except InvalidInput as error:
        faults += error.errors
    settings = _read_target_and_policies(fields, faults)
    if faults or rule is None:
        raise InvalidInput(faults)
    return _definition_of(rule, settings), rule


def _definition_of(rule: when.Rule, settings: Mapping[str, Any]) -> Definition:
    return Definition(rule=structs.replace(rule, holidays=frozenset()), **settings)


def _read_target_and_policies(
    fields: Mapping[str, object], faults: list[FieldError]
) -> dict[str, Any]:
    """Reads everything but the rule: target, payload, metadata and policies."""
    reader = Reader(fields, faults)
    settings = {**_target(reader), **read_payload_and_metadata(fields, faults)}
    settings["overlap"] = reader.choice("overlap", OverlapPolicy.ALLOW)
    settings["on_dead"] = reader.choice("on_dead", OnDead.CONTINUE)
    settings["priority"] = reader.integer("priority", 0, PRIORITY_MAX, 4)
    settings["retry"] = _retry(reader)
    for field in RESULT_FIELDS:
        settings[field] = read_result_target(reader, field)
    if reader.has("expires_after_seconds"):
        expires = reader.integer("expires_after_seconds", 1, EXPIRES_SECONDS_MAX)
        settings["expires_after_seconds"] = None if expires is None else float(expires)
    return settings


def read_payload_and_metadata(
    fields: Mapping[str, object], faults: list[FieldError]
) -> dict[str, bytes]:
    """Reads the fields that differ between schedules created together: payload and metadata."""
    return {"body": _body(with_target_url(fields), faults), "metadata": _metadata(fields, faults)}


def read_name(fields: Mapping[str, object], field: str, faults: list[FieldError]) -> str | None:
    """Reads an optional name or key of at most 120 characters."""
    reader = Reader(fields, faults)
    text = reader.text(field) if reader.has(field) else None
    if text is not None and (len(text) > _NAME_LENGTH_MAX or not text.isprintable()):
        reader.fault(field, f"must be at most {_NAME_LENGTH_MAX} printable characters")
        return None
    return text


def read_new_name(fields: Mapping[str, object], faults: list[FieldError]) -> str | None:
    """Reads the name of a new schedule, which must not look like an id.

    A lookup takes such a name for an id and would never find the schedule.
    """
    name = read_name(fields, "name", faults)
    if name is not None and parse_id(name) is not None:
        fault = "looks like a schedule id; choose another name"
        faults.append(FieldError("name", fault))
        return None
    return name


def parse_id(text: str) -> UUID | None:
    """Parses a UUID in any spelling, also with its prefix; None for any other text."""
    return parse_public_id(text)


def render_definition(definition: Definition) -> dict[str, object]:
    """The JSON fields of a definition, without defaults except for the target. Its secrets are
    masked."""
    is_at_most_once = False
    if definition.queue == DELIVERIES_QUEUE:
        envelope = read_envelope(definition.body)
        target, payload = render_target(masked(envelope.target)), envelope.payload
        is_at_most_once = envelope.is_at_most_once
    elif is_entity_target(definition):
        target, payload = render_entity_target(definition)
    elif is_workflow_target(definition):
        target = render_workflow_target(definition)
        payload = decode_body(definition.body, definition.content_type)
    else:
        target = {"type": TARGET_QUEUE, "queue": definition.queue}
        if definition.type != FIRED_TYPE:
            target["message_type"] = definition.type
        payload = decode_body(definition.body, definition.content_type)
    fields: dict[str, object] = {**when.render(definition.rule), "target": target}
    if payload is not None:
        fields["payload"] = payload
    if is_at_most_once:
        fields["delivery"] = AT_MOST_ONCE
    if definition.overlap is not OverlapPolicy.ALLOW:
        fields["overlap"] = str(definition.overlap)
    if definition.on_dead is not OnDead.CONTINUE:
        fields["on_dead"] = str(definition.on_dead)
    for field in RESULT_FIELDS:
        if (result_target := getattr(definition, field)) is not None:
            fields[field] = msgspec.to_builtins(result_target)
    if definition.priority != 4:
        fields["priority"] = definition.priority
    if definition.retry is not None:
        retry = msgspec.to_builtins(definition.retry)
        fields["retry"] = {name: value for name, value in retry.items() if value is not None}
    if definition.expires_after_seconds is not None:
        fields["expires_after_seconds"] = int(definition.expires_after_seconds)
    if definition.metadata != b"{}":
        fields["metadata"] = msgspec.json.decode(definition.metadata)
    return fields


def receiver_names(definition: Definition) -> Iterator[tuple[str, str, str]]:
    """Those that a definition names besides the queue of its target: its endpoint, and who gets
    the results. The field, `queue`, `endpoint` or `workflow`, the name."""
    if definition.queue == DELIVERIES_QUEUE:
        outside = read_envelope(definition.body).target
        if isinstance(outside, EndpointTarget):
            yield "target", "endpoint", outside.endpoint
    for field in RESULT_FIELDS:
        target: ResultTarget | None = getattr(definition, field)
        for kind, name in msgspec.to_builtins(target or ResultTarget()).items():
            yield field, kind, name


def merge_patch(fields: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Applies a merge patch (RFC 7396): null removes, an object is merged, anything else replaces.

    A timing in the patch replaces the old timing and its mode.
    """
    result = dict(fields)
    if any(patch.get(name) is not None for name in when.TIMING_FIELDS):
        for name in (*when.TIMING_FIELDS, "interval_mode"):
            result.pop(name, None)
    for name, value in with_target_url(patch).items():
        if value is None:
            result.pop(name, None)
        elif name == "target" and _is_other_kind(result.get(name), value):
            result[name] = value
        elif name in _MERGED_INSIDE and isinstance(value, Mapping):
            inside = result.get(name)
            base = inside if isinstance(inside, Mapping) else {}
            result[name] = _merge_object(base, value)
        else:
            result[name] = value
    return result


def with_target_url(fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields with `target_url` written as a target. Both together stay: they are refused."""
    if fields.get("target_url") is None or fields.get("target") is not None:
        return fields
    kept = {name: value for name, value in fields.items() if name != "target_url"}
    return {**kept, "target": {"type": TARGET_WEBHOOK, "url": fields["target_url"]}}


def _is_other_kind(old: object, new: object) -> bool:
    """Whether a target replaces another one: nothing of a webhook belongs into an email, and
    nothing of a URL to an endpoint."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return False
    is_other = new.get("type", old.get("type")) != old.get("type")
    return bool(is_other or any(new.get(one) and old.get(other) for one, other in _EITHER))


_EITHER = (("url", "endpoint"), ("endpoint", "url"))
_MERGED_INSIDE = frozenset({"missed", "dst", "target", "retry", "metadata"})


def _merge_object(fields: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Merges a patch into an object with no objects inside."""
    kept = {**fields, **patch}
    return {name: value for name, value in kept.items() if value is not None}


def _target(reader: Reader) -> dict[str, Any]:
    """Reads the queue of the target. The rest of a target outside is part of the body."""
    if not reader.has("target"):
        reader.fault("target", 'is missing; such as {"type": "queue", "queue": "emails"}')
        return {"queue": ""}
    given = reader.value("target")
    kind = given.get("type") if isinstance(given, Mapping) else None
    if isinstance(given, Mapping) and kind is not None and kind not in TARGET_TYPES:
        # Its other fields belong to a type that is not known: their errors would only mislead.
        reader.nested("target", given).one_of("type", TARGET_TYPES)
        return {"queue": ""}
    if kind in OUTSIDE_TYPES:
        return {"queue": DELIVERIES_QUEUE, "type": kind}
    if kind == TARGET_ENTITY:
        return read_entity_target(reader)
    if kind == TARGET_WORKFLOW:
        return read_workflow_target(reader)
    target = reader.object("target", _TARGET_FIELDS)
    if target is None:
        return {"queue": ""}
    queue = target.text("queue")
    for fault in hidden_queue_faults("queue", queue or "-"):
        target.fault(fault.field, fault.message)
    if not target.has("message_type"):
        return {"queue": queue}
    message_type = target.text("message_type")
    for fault in text_faults("message_type", message_type or "-", TEXT_LENGTH_MAX):
        target.fault(fault.field, fault.message)
    return {"queue": queue, "type": message_type}


def _body(fields: Mapping[str, object], faults: list[FieldError]) -> bytes:
    """The payload, or for a target outside the target and the payload."""
    payload = _payload(fields, faults)
    given = fields.get("target")
    kind = given.get("type") if isinstance(given, Mapping) else None
    reader = Reader(fields, faults)
    if not isinstance(given, Mapping) or kind not in OUTSIDE_TYPES:
        if kind is None or kind in TARGET_TYPES:
            read_delivery(reader, kind, None)
        return entity_body(reader, payload) if kind == TARGET_ENTITY else payload
    target = read_outside_target(reader.nested("target", given), str(kind))
    delivery = read_delivery(reader, kind, target)
    if target is None:
        return payload
    envelope = Envelope(target, msgspec.Raw(payload), delivery=delivery)
    body, bytes_max = msgspec.json.encode(envelope), SCHEDULE_BODY_BYTES_MAX
    bytes_max -= envelope.reserved_bytes
    if len(body) > bytes_max:
        fault = f"has {len(body)} bytes with its target; at most {bytes_max}: send a reference"
        faults.append(FieldError("payload", fault))
    return body


def _payload(fields: Mapping[str, object], faults: list[FieldError]) -> bytes:
    if isinstance(fields.get("payload"), bytes | bytearray | memoryview):
        fault = "is bytes, but the payload of a schedule is JSON; give a text, such as base64"
        faults.append(FieldError("payload", fault))
        return b"null"
    try:
        body = encode_json(fields.get("payload"), "payload")
    except InvalidInput as error:
        faults += error.errors
        return b"null"
    if len(body) > SCHEDULE_BODY_BYTES_MAX:
        fault = f"has {len(body)} bytes; at most {SCHEDULE_BODY_BYTES_MAX}: send a reference"
        faults.append(FieldError("payload", fault))
    return body


def _metadata(fields: Mapping[str, object], faults: list[FieldError]) -> bytes:
    metadata = fields.get("metadata")
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, Mapping):
        faults.append(FieldError("metadata", f"must be an object, not {shown(metadata)}"))
        return b"{}"
    try:
        encoded = encode_json(metadata, "metadata")
    except InvalidInput as error:
        faults += error.errors
        return b"{}"
    if len(encoded) > METADATA_BYTES_MAX:
        fault = f"has {len(encoded)} bytes; at most {METADATA_BYTES_MAX}"
        faults.append(FieldError("metadata", fault))
    return encoded


def _retry(reader: Reader) -> Retry | None:
    if not reader.has("retry"):
        return None
    given = reader.object("retry", _RETRY_FIELDS)
    if given is None:
        return None
    attempts = given.integer("max_attempts", 1, ATTEMPTS_MAX) if given.has("max_attempts") else None
    return Retry(attempts, _backoff(given) if given.has("backoff") else None)


def _backoff(reader: Reader) -> Backoff | None:
    backoff = read_backoff(reader, "backoff")
    if backoff is None:
        return None
    for fault in backoff_faults(backoff, "backoff"):
        reader.fault(fault.field, fault.message)
    return backoff
