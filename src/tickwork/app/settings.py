"""The settings of a queue as an app writes them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from msgspec import structs

from tickwork.app.checking import kind_faults
from tickwork.core.limits import check_queue
from tickwork.core.model import QueueSettings
from tickwork.errors import FieldError, InvalidInput

_SHORT = {
    "max_batch_timeout": "max_batch_timeout_seconds",
    "visibility_timeout": "visibility_timeout_seconds",
    "timeout": "timeout_seconds",
    "retention": "retention_seconds",
}
"""Names without their unit, where there is only one."""

_KINDS = {field.name: field.type for field in structs.fields(QueueSettings)}


def queue_settings(name: str, given: dict[str, Any]) -> QueueSettings:
    """The settings of a queue; `InvalidInput` that names what cannot be."""
    known = QueueSettings.__struct_fields__
    named = {_SHORT.get(field, field): value for field, value in given.items()}
    faults = [
        FieldError(f"{name}.{field}", f"is no setting of a queue; {_nearest(field, known)}")
        for field in named
        if field not in known
    ]
    faults += [
        FieldError(f"{name}.{short}", f"is {field} under a shorter name; say one of them")
        for short, field in _SHORT.items()
        if short in given and field in given
    ]
    for field, value in given.items():
        wanted = _KINDS.get(_SHORT.get(field, field))
        faults += kind_faults(field, value, wanted) if wanted else []
    if faults:
        raise InvalidInput(faults)
    settings = QueueSettings(**named)
    check_queue(name, settings)
    return settings


def _nearest(field: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(field, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
