"""When a schedule fires: timings, zones, clock changes and bounds, as pure functions.

```
 JSON fields ──parse──▶ Rule ──┬─ next_after, slots_between, count_between   its slots
                ◀──render──    ├─ due_at                                     jitter and window
                               ├─ plan_missed                                after an outage
                               └─ preview, describe                          for people
```

A rule is a frozen value. A *slot* is one of its nominal times, an aware UTC `datetime`. Intervals
between two instants are open at the start and closed at the end: what follows a slot starts right
after it. A rule that `parse` returned is known to fire.

A wall-clock rule (`calendar_rule`, `rrule`) works on a clock without a zone. `zone` finds where a
zone's offset changes. `wall_clock` combines the two and is the only module that handles daylight
saving.
"""

from tickwork.core.fields import iso
from tickwork.core.when.describe import cron_equivalent, describe
from tickwork.core.when.missed import (
    MissedPlan,
    SkippedRun,
    SlotToFire,
    excluded_runs,
    has_days_off,
    ignoring_days_off,
    is_day_off,
    is_expired,
    plan_missed,
    split_around,
)
from tickwork.core.when.model import (
    EPOCH,
    Cron,
    Daily,
    Dst,
    Gap,
    Interval,
    IntervalMode,
    Limits,
    Missed,
    MissedPolicy,
    Monthly,
    Once,
    Overlap,
    Recurrence,
    Roll,
    Rule,
    ShortMonth,
    Timing,
    Weekly,
    has_one_known_slot,
    is_fixed_delay,
)
from tickwork.core.when.parse import RULE_FIELDS, TIMING_FIELDS, parse, render, validate
from tickwork.core.when.preview import (
    PREVIEW_LIMIT_MAX,
    ClockChange,
    Preview,
    UpcomingSlot,
    preview,
)
from tickwork.core.when.slots import (
    count_between,
    due_at,
    first_slot,
    iterate_slots,
    last_between,
    next_after,
    slots_between,
)
from tickwork.core.when.zone import just_before

__all__ = [
    "EPOCH",
    "PREVIEW_LIMIT_MAX",
    "RULE_FIELDS",
    "TIMING_FIELDS",
    "ClockChange",
    "Cron",
    "Daily",
    "Dst",
    "Gap",
    "Interval",
    "IntervalMode",
    "Limits",
    "Missed",
    "MissedPlan",
    "MissedPolicy",
    "Monthly",
    "Once",
    "Overlap",
    "Preview",
    "Recurrence",
    "Roll",
    "Rule",
    "ShortMonth",
    "SkippedRun",
    "SlotToFire",
    "Timing",
    "UpcomingSlot",
    "Weekly",
    "count_between",
    "cron_equivalent",
    "describe",
    "due_at",
    "excluded_runs",
    "first_slot",
    "has_days_off",
    "has_one_known_slot",
    "ignoring_days_off",
    "is_day_off",
    "is_expired",
    "is_fixed_delay",
    "iso",
    "iterate_slots",
    "just_before",
    "last_between",
    "next_after",
    "parse",
    "plan_missed",
    "preview",
    "render",
    "slots_between",
    "split_around",
    "validate",
]
