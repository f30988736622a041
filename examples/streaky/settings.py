"""What the environment says; everything has a default that works on a laptop."""

from __future__ import annotations

import os
from typing import Any

DATABASE = os.environ.get("TICKWORK_DATABASE", "sqlite:///streaky.db")

STAND_IN = "http://127.0.0.1:8099"
GITHUB = os.environ.get("STREAKY_GITHUB", STAND_IN)
DISCORD = os.environ.get("STREAKY_DISCORD", STAND_IN)
TELEGRAM = os.environ.get("STREAKY_TELEGRAM", STAND_IN)

SLOTS = int(os.environ["STREAKY_SLOTS"]) if "STREAKY_SLOTS" in os.environ else None
"""How many users are checked at a time; without it Tickwork finds out by itself, up to 250."""

ISOLATION = os.environ.get("STREAKY_ISOLATION", "task")
"""`process` gives every user a budget of processor time that nobody can overrun."""

CPU_SECONDS = float(os.environ.get("STREAKY_CPU_SECONDS", "5"))
LIMITS: dict[str, Any] = {"cpu_seconds": CPU_SECONDS} if ISOLATION == "process" else {}
WALL_SECONDS = int(os.environ.get("STREAKY_WALL_SECONDS", "60"))
RETRIES = int(os.environ.get("STREAKY_RETRIES", "8"))
RETRY_SECONDS = float(os.environ.get("STREAKY_RETRY_SECONDS", "30"))
"""The wait before the second attempt; it doubles each time."""
