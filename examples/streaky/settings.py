"""Settings from the environment; the defaults work on a laptop."""

from __future__ import annotations

import os
from typing import Any, Literal

DATABASE = os.environ.get("TICKWORK_DATABASE", "sqlite:///streaky.db")

FAKE_SERVICES = "http://127.0.0.1:8099"
GITHUB = os.environ.get("STREAKY_GITHUB", FAKE_SERVICES)
DISCORD = os.environ.get("STREAKY_DISCORD", FAKE_SERVICES)
TELEGRAM = os.environ.get("STREAKY_TELEGRAM", FAKE_SERVICES)

CONCURRENCY = (
    int(os.environ["STREAKY_CONCURRENCY"]) if "STREAKY_CONCURRENCY" in os.environ else None
)
"""Number of users checked at a time; without it Tickwork scales from 1 to 4 processes per core, or
to 250 tasks."""

ISOLATION: Literal["task", "process"] = (
    "task" if os.environ.get("STREAKY_ISOLATION") == "task" else "process"
)
"""`process` gives every user a CPU limit; `task` has none and checks many more users at a time."""

CPU_SECONDS = float(os.environ.get("STREAKY_CPU_SECONDS", "5"))
LIMITS: dict[str, Any] = {"cpu_seconds": CPU_SECONDS} if ISOLATION == "process" else {}
TIMEOUT_SECONDS = int(os.environ.get("STREAKY_TIMEOUT_SECONDS", "60"))
RETRIES = int(os.environ.get("STREAKY_RETRIES", "8"))
RETRY_SECONDS = float(os.environ.get("STREAKY_RETRY_SECONDS", "30"))
"""Seconds before the first retry; they double each time, up to ten minutes."""
