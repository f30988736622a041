"""Tickwork: time and messages into work that is never lost.

The public names live here, at most a dozen. Importing the package costs next to nothing: what
is heavy is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from tickwork.errors import FieldError, InvalidInput, TickworkError

if TYPE_CHECKING:
    from tickwork.app.firing import Firing, log_context
    from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
    from tickwork.facade.app import Tickwork
    from tickwork.facade.queue import Queue

__all__ = [
    "FieldError",
    "Firing",
    "InvalidInput",
    "Message",
    "MessageBatch",
    "Permanent",
    "Queue",
    "Snooze",
    "Tickwork",
    "TickworkError",
    "__version__",
    "log_context",
]

__version__ = "0.1.0"

_PLACES = {
    "Firing": "tickwork.app.firing",
    "log_context": "tickwork.app.firing",
    "Message": "tickwork.app.message",
    "MessageBatch": "tickwork.app.message",
    "Permanent": "tickwork.app.message",
    "Snooze": "tickwork.app.message",
    "Queue": "tickwork.facade.queue",
    "Tickwork": "tickwork.facade.app",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'tickwork' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
