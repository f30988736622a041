"""Schedules that start runs, with a target such as `{"type": "workflow", "workflow": "content"}`.

Such a schedule sends to the hidden queue of the workflow. The message of a slot stands for the run,
so that the firing is finished when the run has ended. The payload is the params of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwork.core.fields import Reader, text_faults
from tickwork.core.limits import RUNS_QUEUE_PREFIX
from tickwork.core.options import WorkflowTargetFields, names_of
from tickwork.core.schedule.model import Definition
from tickwork.core.workflow.model import WORKFLOW_NAME_LENGTH_MAX
from tickwork.core.workflow.queue import runs_queue

TARGET_WORKFLOW = "workflow"

_FIELDS = names_of(WorkflowTargetFields)


def read_workflow_target(reader: Reader) -> dict[str, Any]:
    """The queue and the message type of such a target."""
    target = reader.object("target", _FIELDS)
    name = None if target is None else target.text("workflow")
    if target is None or name is None:
        return {"queue": "", "type": TARGET_WORKFLOW}
    for fault in text_faults("workflow", name, WORKFLOW_NAME_LENGTH_MAX):
        target.fault(fault.field, fault.message)
    return {"queue": runs_queue(name), "type": TARGET_WORKFLOW}


def is_workflow_target(definition: Definition) -> bool:
    """Whether a schedule starts runs."""
    return definition.queue.startswith(RUNS_QUEUE_PREFIX)


def render_workflow_target(definition: Definition) -> dict[str, object]:
    """The target of such a schedule."""
    return {"type": TARGET_WORKFLOW, "workflow": workflow_name(definition)}


def workflow_name(definition: Definition) -> str:
    """The workflow whose runs a schedule starts."""
    return definition.queue.removeprefix(RUNS_QUEUE_PREFIX)


def workflow_named(fields: Mapping[str, object], field: str) -> str | None:
    """The workflow that a field of a schedule names: its target, or who gets the results."""
    given = fields.get(field)
    if not isinstance(given, Mapping) or given.get("type", TARGET_WORKFLOW) != TARGET_WORKFLOW:
        return None
    name = given.get("workflow")
    return name if isinstance(name, str) else None
