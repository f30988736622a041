"""Tickwork turns time and messages into work that is never lost.

Every public name is here or in `tickwork.testing`. Importing the package is cheap: a name is
imported when it is first used.
"""

from typing import TYPE_CHECKING

from tickwork.errors import (
    BacklogFull,
    Conflict,
    FieldError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    TickworkError,
    TooMany,
)

if TYPE_CHECKING:
    from tickwork.app.firing import Firing, log_context
    from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
    from tickwork.core.message.backoff import Exponential, Fixed, Listed
    from tickwork.core.message.batch import Batch, BatchItem
    from tickwork.core.message.dead_letter import DeadGroup, DeadLetter
    from tickwork.core.model import StoredQueue
    from tickwork.core.options import ScheduleFields
    from tickwork.core.queue.stats import QueueStats
    from tickwork.core.schedule.firing import FiringRecord
    from tickwork.core.schedule.model import Calendar
    from tickwork.core.when import Preview
    from tickwork.facade.app import Tickwork
    from tickwork.facade.queue import Queue
    from tickwork.ops.batches import BatchHandle
    from tickwork.ops.cluster import Node
    from tickwork.ops.dead_letters import ReplaySummary
    from tickwork.ops.messages import StoredMessage
    from tickwork.ops.schedules.public import Schedule
    from tickwork.ops.schedules.views import UpcomingFire
    from tickwork.ops.schedules.why import Why
    from tickwork.ops.send import Outgoing

__all__ = [
    "BacklogFull",
    "Batch",
    "BatchHandle",
    "BatchItem",
    "Calendar",
    "Conflict",
    "DeadGroup",
    "DeadLetter",
    "Exponential",
    "FieldError",
    "Firing",
    "FiringRecord",
    "Fixed",
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
    "Schedule",
    "ScheduleFields",
    "Snooze",
    "StoreUnavailable",
    "StoredMessage",
    "StoredQueue",
    "Tickwork",
    "TickworkError",
    "TooMany",
    "UpcomingFire",
    "Why",
    "__version__",
    "log_context",
]

__version__ = "0.1.0"

_MODULES = {
    "Batch": "tickwork.core.message.batch",
    "BatchHandle": "tickwork.ops.batches",
    "BatchItem": "tickwork.core.message.batch",
    "Calendar": "tickwork.core.schedule.model",
    "DeadGroup": "tickwork.core.message.dead_letter",
    "DeadLetter": "tickwork.core.message.dead_letter",
    "Exponential": "tickwork.core.message.backoff",
    "Firing": "tickwork.app.firing",
    "FiringRecord": "tickwork.core.schedule.firing",
    "Fixed": "tickwork.core.message.backoff",
    "Listed": "tickwork.core.message.backoff",
    "Message": "tickwork.app.message",
    "MessageBatch": "tickwork.app.message",
    "Node": "tickwork.ops.cluster",
    "Outgoing": "tickwork.ops.send",
    "Permanent": "tickwork.app.message",
    "Preview": "tickwork.core.when",
    "Queue": "tickwork.facade.queue",
    "QueueStats": "tickwork.core.queue.stats",
    "ReplaySummary": "tickwork.ops.dead_letters",
    "Schedule": "tickwork.ops.schedules.public",
    "ScheduleFields": "tickwork.core.options",
    "Snooze": "tickwork.app.message",
    "StoredMessage": "tickwork.ops.messages",
    "StoredQueue": "tickwork.core.model",
    "Tickwork": "tickwork.facade.app",
    "UpcomingFire": "tickwork.ops.schedules.views",
    "Why": "tickwork.ops.schedules.why",
    "log_context": "tickwork.app.firing",
}


if not TYPE_CHECKING:  # A type checker would take it for a promise that every name exists.

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'tickwork' has no attribute {name!r}")
        from importlib import import_module

        module = import_module(_MODULES[name])
        return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
