"""A handler with its own process, for an app under a virtual clock."""

from __future__ import annotations

import os
from typing import Any

from tickwork.app.message import Message


def handle(message: Message[Any]) -> None:
    """Fails once, and then tells where it ran and how much time it had."""
    if message.attempts == 1:
        raise ValueError("once")
    message.send("out", [os.getpid(), message.time_left()])


def tell_death(message: Message[Any]) -> None:
    """Sends what it knows of the message's death."""
    died = message.died
    assert died is not None
    message.send("out", [died.queue, died.reason, died.attempts, message.idempotency_key])
