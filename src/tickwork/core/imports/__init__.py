"""Schedules of other systems: crontab files, Celery beat, APScheduler.

```
 crontab, beat_schedule, jobs ──read──▶ Entry ──┬─ fields of our schedule ──▶ ops/imports
                                                └─ the next fires there  ──▶ differences
```

An entry becomes a schedule that fires at the same times, as far as we have a rule for that. Where
the next fires differ, `differences` says when and why. What has no time at all is refused.
"""

from tickwork.core.imports.entry import (
    FIRES_COMPARED,
    Difference,
    Entry,
    Read,
    Refused,
    differences,
    identity_of,
    schedule_body,
)

__all__ = [
    "FIRES_COMPARED",
    "Difference",
    "Entry",
    "Read",
    "Refused",
    "differences",
    "identity_of",
    "schedule_body",
]
