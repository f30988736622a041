"""Schedules that call an entity, with a target such as
`{"type": "entity", "entity": "Brand", "key": "llc-tax", "method": "report"}`.

Such a schedule sends to the hidden queue of the entity's type. The body of its messages is the
call; the payload, if there is one, is its argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tickwork.core.entity.call import Call, check_key, check_type_name, queue_of, read_call
from tickwork.core.fields import Reader, text_faults
from tickwork.core.limits import ENTITIES_PREFIX, TYPE_LENGTH_MAX
from tickwork.core.options import EntityTargetFields, names_of
from tickwork.core.schedule.model import Definition
from tickwork.errors import InvalidInput

TARGET_ENTITY = "entity"

_FIELDS = names_of(EntityTargetFields)


def read_entity_target(reader: Reader) -> dict[str, Any]:
    """The queue and the message type of such a target."""
    call = _read(reader)
    return {"queue": "" if call is None else queue_of(call.entity), "type": TARGET_ENTITY}


def entity_body(reader: Reader, payload: bytes) -> bytes:
    """The body of the slots' messages."""
    call = _read(Reader({"target": reader.value("target")}, []))
    if call is None:
        return payload  # Reading the target names its faults.
    value = msgspec.json.decode(payload)
    args = [] if value is None else [value]
    return msgspec.json.encode(msgspec.structs.replace(call, args=args))


def is_entity_target(definition: Definition) -> bool:
    """Whether a schedule calls an entity."""
    return definition.queue.startswith(ENTITIES_PREFIX)


def render_entity_target(definition: Definition) -> tuple[dict[str, object], object]:
    """The target and the payload of such a schedule."""
    call = read_call(definition.body)
    names = {"entity": call.entity, "key": call.key, "method": call.method}
    return {"type": TARGET_ENTITY, **names}, call.args[0] if call.args else None


def _read(reader: Reader) -> Call | None:
    target = reader.object("target", _FIELDS)
    if target is None:
        return None
    before = len(target.faults)
    names = {name: target.text(name) for name in ("entity", "key", "method")}
    for fault in text_faults("method", names["method"] or "-", TYPE_LENGTH_MAX):
        target.fault(fault.field, fault.message)
    for name, check in (("entity", check_type_name), ("key", check_key)):
        if names[name] is not None:
            try:
                check(names[name])
            except InvalidInput as error:
                target.fault(name, error.errors[0].message)
    if len(target.faults) > before or None in names.values():
        return None
    return Call(**names)  # type: ignore[arg-type]


def entity_named(fields: Mapping[str, object]) -> str | None:
    """The type of entities that a schedule's fields name as its target."""
    target = fields.get("target")
    is_entity = isinstance(target, Mapping) and target.get("type") == TARGET_ENTITY
    name = target.get("entity") if is_entity and isinstance(target, Mapping) else None
    return name if isinstance(name, str) else None
