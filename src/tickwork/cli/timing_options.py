"""The options for the timing of a schedule, and the API fields that they set.

Contract: the options become the body of `POST /v1/schedules/preview`. The verb behind it checks
the values, and an error names the option of its field.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Struct

from tickwork.cli.options import Argument, Option
from tickwork.cli.output import EXIT_BAD_USAGE, fail
from tickwork.errors import FieldError, InvalidInput


def long_number(text: str, name: str) -> int:
    """Reads a whole number, also one that is far too large: the verb says what it may be."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        fail(f"{name}: must be a whole number, not {text!r}", code=EXIT_BAD_USAGE)
    return int(text)


Expr = Annotated[
    list[str] | None,
    Argument('Cron expression in quotes, such as "0 9 * * 1-5".', "EXPR", fields=("cron_expr",)),
]
Zone = Annotated[str | None, Option("IANA time zone of the rule; default UTC.", "ZONE")]
DstGap = Annotated[
    str | None,
    Option(
        "What to do when a local time is skipped; default run_after.",
        "run_after|shift|skip",
        fields=("dst.gap",),
    ),
]
DstOverlap = Annotated[
    str | None,
    Option(
        "Which one to use when a local time occurs twice.",
        "first|last|both",
        fields=("dst.overlap",),
    ),
]
IntervalSeconds = Annotated[int | None, Option("Fire every N seconds.", "N", read=long_number)]
DailyTime = Annotated[str | None, Option("Fire every day at this time.", "HH:MM")]
WeeklyTime = Annotated[
    str | None,
    Option("Fire every week; DAY is MON, MON-FRI, MON,THU or 0-6 (0 is Sunday).", "'DAY HH:MM'"),
]
MonthlyTime = Annotated[str | None, Option("Fire every month; DAY is 1-31 or last.", "'DAY HH:MM'")]
OnceAt = Annotated[str | None, Option("Fire once at this time.", "ISO")]
Rrule = Annotated[str | None, Option("Fire by an RFC 5545 rule; needs --start-at.", "RULE")]
StartAt = Annotated[
    str | None, Option("First possible fire; intervals and rules count from it.", "ISO")
]
From = Annotated[
    str | None,
    Option("Show fires after this time; default now.", "ISO", name="--from", fields=("from",)),
]


class TimingOptions(Struct, frozen=True, kw_only=True):
    """The options as they were given, in the order of the help; None for those not given."""

    expr: Expr = None
    timezone: Zone = None
    dst_gap: DstGap = None
    dst_overlap: DstOverlap = None
    interval_seconds: IntervalSeconds = None
    daily_time: DailyTime = None
    weekly_time: WeeklyTime = None
    monthly_time: MonthlyTime = None
    once_at: OnceAt = None
    rrule: Rrule = None
    start_at: StartAt = None

    def body(self, *, needs_timing: bool = True) -> dict[str, object]:
        """The API fields; raises `InvalidInput` for a malformed option.

        Without `needs_timing` the timing may be missing, as in a patch.
        """
        policies = {"gap": self.dst_gap, "overlap": self.dst_overlap}
        dst = {name: value for name, value in policies.items() if value is not None}
        given = {
            **self._timing(needs_timing=needs_timing),
            "start_at": self.start_at,
            "timezone": self.timezone,
            "dst": dst or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _timing(self, *, needs_timing: bool) -> dict[str, object]:
        given: dict[str, object] = {
            "cron_expr": self.expr,
            "interval_seconds": self.interval_seconds,
            "daily_time": self.daily_time,
            "weekly_time": self.weekly_time,
            "monthly_time": self.monthly_time,
            "once_at": self.once_at,
            "rrule": self.rrule,
        }
        names = [name for name, value in given.items() if value is not None]
        if not names and not needs_timing:
            return {}
        if len(names) != 1:
            found = " and ".join(map(_option, names))
            raise _fault(
                "timing",
                f"give exactly one of {', '.join(map(_option, given))}; "
                f"{found + ' are' if found else 'none is'} given",
            )
        (name,) = names
        return {name: _expression(self.expr) if self.expr else given[name]}


class PreviewOptions(TimingOptions, frozen=True, kw_only=True):
    """The timing, and from when on."""

    begin: From = None

    def preview(self, limit: int | None = None) -> dict[str, object]:
        """The fields of a preview."""
        more = {"from": self.begin, "limit": limit}
        return self.body() | {name: value for name, value in more.items() if value is not None}


def _option(field: str) -> str:
    return "EXPR" if field == "cron_expr" else f"--{field.replace('_', '-')}"


def _expression(words: list[str]) -> str:
    if len(words) > 1:
        raise _fault(
            "cron_expr",
            f"put the expression in quotes; {len(words)} words are given instead of one",
        )
    return words[0]


def _fault(field: str, message: str) -> InvalidInput:
    return InvalidInput([FieldError(field, message)])
