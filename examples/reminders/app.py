"""Reminders by email and webhook: each one is a schedule with one channel or two.

There is no handler to write. `tickwork run examples.reminders.app:app` delivers them.
"""

from __future__ import annotations

import os
from typing import Any

from tickwork import Listed, Schedule, ScheduleFields, Tickwork

BACKOFF = tuple(
    float(part) for part in os.environ.get("REMINDERS_BACKOFF_SECONDS", "60, 300, 1800").split(",")
)
"""Seconds before the second, third and fourth attempt. The fourth failure makes a dead letter."""

app = Tickwork(os.environ.get("TICKWORK_DATABASE", "sqlite:///reminders.db"), name="reminders")


async def remind(
    name: str,
    text: str,
    when: ScheduleFields,
    *,
    email: str | None = None,
    url: str | None = None,
) -> Schedule:
    """Create a reminder. It goes to the email address, to the URL, or to both at the same time."""
    channels: list[Any] = []
    if email is not None:
        subject, body = "Reminder: {{ payload.text }}", "{{ payload.text }}\n\n{{ slot }}"
        channels.append({"type": "email", "to": email, "subject": subject, "text": body})
    if url is not None:
        channels.append({"type": "webhook", "url": url})
    fields: ScheduleFields = {
        **when,
        "name": name,
        "target": {"type": "channels", "channels": channels},
        "payload": {"name": name, "text": text},
        "retry": {"max_attempts": len(BACKOFF) + 1, "backoff": Listed(BACKOFF)},
        "missed": {"policy": "fire_most_recent"},  # After an outage one reminder is enough.
    }
    return await app.schedules.create(**fields)
