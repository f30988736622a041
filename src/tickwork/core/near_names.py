"""The known name that somebody meant who wrote another one.

To compare two names takes microseconds, and callers choose both the names and, of queues, how many
there are: a search compares a bounded number of names of bounded length.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice

_NEAR_LENGTH_MAX = 200
"""Characters of a name from which on no near one is looked for."""

_NEAR_CHOICES_MAX = 400
"""Maximum number of names that one name is compared with."""

_OTHER_WORDS = {
    "at": ("once_at",),
    "countdown": ("delay_seconds",),
    "crontab": ("cron_expr",),
    "dlq": ("dead_letter_queue",),
    "every": ("interval_seconds",),
    "interval": ("interval_seconds",),
    "retries": ("max_retries", "retry"),
    "schedule": ("cron_expr",),
    "tz": ("timezone",),
    "zone": ("timezone",),
}
"""Names that other libraries use for our fields."""


def nearest(name: str, known: Collection[str], *, likeness: float = 0.6) -> str | None:
    """The known name that is most like this one, begins with it or means the same; else None.

    Equal names have a likeness of 1.
    """
    if len(name) > _NEAR_LENGTH_MAX:
        return None
    same = [word for word in _OTHER_WORDS.get(name, ()) if word in known]
    longer = [other for other in known if name and other.startswith(f"{name}_")]
    found = same or get_close_matches(name, _comparable(name, known), 1, likeness) or sorted(longer)
    return found[0] if found else None


def _comparable(name: str, known: Collection[str]) -> list[str]:
    """Known names that may be like this one: those that begin alike if there are many."""
    if len(known) <= _NEAR_CHOICES_MAX:
        return [*known]
    return [*islice((other for other in known if other[:2] == name[:2]), _NEAR_CHOICES_MAX)]
