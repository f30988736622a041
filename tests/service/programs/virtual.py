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
