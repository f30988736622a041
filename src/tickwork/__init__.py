"""Tickwork turns time and messages into work that is never lost.

Every public name is here or in `tickwork.testing`. Importing the package is cheap: a name is
imported when it is first used.
"""

from typing import TYPE_CHECKING

from tickwork.errors import (
    BacklogFull,
    Conflict,
    EntityBusy,
    EntityCycle,
    EntityMoved,
    EventTimedOut,
    FieldError,
    InvalidInput,
    NotFound,
    RunFailed,
    ServiceFailed,
    ServiceUnavailable,
    StepFailed,
    StoreUnavailable,
    TickworkError,
    TooMany,
)

if TYPE_CHECKING:
    from tickwork.app.firing import Firing, log_context
    from tickwork.app.invocation import Rows
    from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
    from tickwork.client.client import Client, SyncClient
    from tickwork.core.answers.batch import BatchAnswer as Batch
    from tickwork.core.answers.batch import ItemAnswer as BatchItem
    from tickwork.core.answers.cluster import Node
    from tickwork.core.answers.dead_letter import DeadLetter, ReplaySummary
    from tickwork.core.answers.message import StoredMessage
    from tickwork.core.answers.schedule import CalendarAnswer as Calendar
    from tickwork.core.answers.schedule import FiringAnswer as FiringRecord
    from tickwork.core.answers.schedule import ScheduleAnswer as Schedule
    from tickwork.core.answers.schedule import UpcomingFire, Why
    from tickwork.core.http.message import HttpRequest, HttpResponse
    from tickwork.core.message.backoff import Exponential, Fixed, Listed
    from tickwork.core.message.body import Outgoing
    from tickwork.core.message.dead_letter import DeadGroup
    from tickwork.core.model import StoredQueue
    from tickwork.core.options import RuleFields, ScheduleFields, SchedulePatch
    from tickwork.core.queue.stats import QueueStats
    from tickwork.core.when import Preview
    from tickwork.core.workflow.retries import Retries
    from tickwork.entity.entity import Entity, exposed, read
    from tickwork.facade.app import Tickwork
    from tickwork.facade.queue import Queue
    from tickwork.facade.services import Service
    from tickwork.facade.workflows import RunHandle, Workflow
    from tickwork.ops.batches import BatchHandle
    from tickwork.workflow.step import Step

__all__ = [
    "BacklogFull",
    "Batch",
    "BatchHandle",
    "BatchItem",
    "Calendar",
    "Client",
    "Conflict",
    "DeadGroup",
    "DeadLetter",
    "Entity",
    "EntityBusy",
    "EntityCycle",
    "EntityMoved",
    "EventTimedOut",
    "Exponential",
    "FieldError",
    "Firing",
    "FiringRecord",
    "Fixed",
    "HttpRequest",
    "HttpResponse",
    "InvalidInput",
    "Listed",
    "Message",
    "MessageBatch",
    "Node",
    "NotFound",
    "Outgoing",
    "Permanent",
    "Preview",
    "Queue",
    "QueueStats",
    "ReplaySummary",
    "Retries",
    "Rows",
    "RuleFields",
    "RunFailed",
    "RunHandle",
    "Schedule",
    "ScheduleFields",
    "SchedulePatch",
    "Service",
    "ServiceFailed",
    "ServiceUnavailable",
    "Snooze",
    "Step",
    "StepFailed",
    "StoreUnavailable",
    "StoredMessage",
    "StoredQueue",
    "SyncClient",
    "Tickwork",
    "TickworkError",
    "TooMany",
    "UpcomingFire",
    "Why",
    "Workflow",
    "__version__",
    "exposed",
    "log_context",
    "read",
]

__version__ = "0.1.0"

_MODULES = {
    "Batch": "tickwork.core.answers.batch:BatchAnswer",
    "BatchHandle": "tickwork.ops.batches",
    "BatchItem": "tickwork.core.answers.batch:ItemAnswer",
    "Calendar": "tickwork.core.answers.schedule:CalendarAnswer",
    "Client": "tickwork.client.client",
    "DeadGroup": "tickwork.core.message.dead_letter",
    "DeadLetter": "tickwork.core.answers.dead_letter",
    "Entity": "tickwork.entity.entity",
    "Exponential": "tickwork.core.message.backoff",
    "Firing": "tickwork.app.firing",
    "FiringRecord": "tickwork.core.answers.schedule:FiringAnswer",
    "Fixed": "tickwork.core.message.backoff",
    "HttpRequest": "tickwork.core.http.message",
    "HttpResponse": "tickwork.core.http.message",
    "Listed": "tickwork.core.message.backoff",
    "Message": "tickwork.app.message",
    "MessageBatch": "tickwork.app.message",
    "Node": "tickwork.core.answers.cluster",
    "Outgoing": "tickwork.core.message.body",
    "Permanent": "tickwork.app.message",
    "Preview": "tickwork.core.when",
    "Queue": "tickwork.facade.queue",
    "QueueStats": "tickwork.core.queue.stats",
    "ReplaySummary": "tickwork.core.answers.dead_letter",
    "Retries": "tickwork.core.workflow.retries",
    "Rows": "tickwork.app.invocation",
    "RuleFields": "tickwork.core.options",
    "RunHandle": "tickwork.facade.workflows",
    "Schedule": "tickwork.core.answers.schedule:ScheduleAnswer",
    "ScheduleFields": "tickwork.core.options",
    "SchedulePatch": "tickwork.core.options",
    "Service": "tickwork.facade.services",
    "Snooze": "tickwork.app.message",
    "Step": "tickwork.workflow.step",
    "StoredMessage": "tickwork.core.answers.message",
    "StoredQueue": "tickwork.core.model",
    "SyncClient": "tickwork.client.client",
    "Tickwork": "tickwork.facade.app",
    "UpcomingFire": "tickwork.core.answers.schedule",
    "Why": "tickwork.core.answers.schedule",
    "Workflow": "tickwork.facade.workflows",
    "exposed": "tickwork.entity.entity",
    "log_context": "tickwork.app.firing",
    "read": "tickwork.entity.entity",
}


if not TYPE_CHECKING:  # A type checker would take it for a promise that every name exists.

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'tickwork' has no attribute {name!r}")
        from importlib import import_module

        module, _, own_name = _MODULES[name].partition(":")
        return getattr(import_module(module), own_name or name)


def __dir__() -> list[str]:
    return sorted(__all__)
