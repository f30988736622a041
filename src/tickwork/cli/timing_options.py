"""The options for the timing of a schedule, and the API fields that they set.

Contract: the options become the body of `POST /v1/schedules/preview`. The verb behind it checks
the values, and the command reports a fault under the option's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

from msgspec import Struct, structs

from tickwork.cli.options import Argument, Option
from tickwork.errors import FieldError, InvalidInput

Expr = Annotated[
    list[str] | None,
    Argument(metavar="EXPR", help='Cron expression in quotes, such as "0 9 * * 1-5".'),
]
Zone = Annotated[
    str | None,
    Option(name="--timezone", metavar="ZONE", help="IANA time zone of the rule; default UTC."),
]
From = Annotated[
    str | None,
    Option(name="--from", metavar="ISO", help="Show fires after this time; default now."),
]
DstGap = Annotated[
    str | None,
    Option(
        metavar="run_after|shift|skip",
        help="What to do when a local time is skipped; default run_after.",
    ),
]
DstOverlap = Annotated[
    str | None,
    Option(metavar="first|last|both", help="Which one to use when a local time occurs twice."),
]
IntervalSeconds = Annotated[str | None, Option(metavar="N", help="Fire every N seconds.")]
DailyTime = Annotated[str | None, Option(metavar="HH:MM", help="Fire every day at this time.")]
WeeklyTime = Annotated[
    str | None,
    Option(
        metavar="'DAY HH:MM'",
        help="Fire every week; DAY is MON, MON-FRI, MON,THU or 0-6 (0 is Sunday).",
    ),
]
MonthlyTime = Annotated[
    str | None, Option(metavar="'DAY HH:MM'", help="Fire every month; DAY is 1-31 or last.")
]
OnceAt = Annotated[str | None, Option(metavar="ISO", help="Fire once at this time.")]
Rrule = Annotated[
    str | None, Option(metavar="RULE", help="Fire by an RFC 5545 rule; needs --start-at.")
]
StartAt = Annotated[
    str | None,
    Option(metavar="ISO", help="First possible fire; intervals and rules count from it."),
]

OPTION_NAMES = {
    "cron_expr": "EXPR",
    "interval_seconds": "--interval-seconds",
    "daily_time": "--daily-time",
    "weekly_time": "--weekly-time",
    "monthly_time": "--monthly-time",
    "once_at": "--once-at",
    "rrule": "--rrule",
    "start_at": "--start-at",
    "timezone": "--timezone",
    "from": "--from",
    "limit": "--limit",
    "dst.gap": "--dst-gap",
    "dst.overlap": "--dst-overlap",
}


class TimingOptions(Struct, frozen=True, kw_only=True):
    """The options as they were given, in the order of the help; None for those not given."""

    expr: Expr = None
    timezone: Zone = None
    begin: From = None
    dst_gap: DstGap = None
    dst_overlap: DstOverlap = None
    interval_seconds: IntervalSeconds = None
    daily_time: DailyTime = None
    weekly_time: WeeklyTime = None
    monthly_time: MonthlyTime = None
    once_at: OnceAt = None
    rrule: Rrule = None
    start_at: StartAt = None

    def body(self, limit: str | None = None, *, needs_timing: bool = True) -> dict[str, object]:
        """Returns the API fields; raises `InvalidInput` for a malformed option.

        Without `needs_timing` the timing may be missing, as in a patch.
        """
        given = {
            **self._timing(needs_timing=needs_timing),
            "start_at": self.start_at,
            "timezone": self.timezone,
            "from": self.begin,
            "limit": limit and _number("limit", limit),
        }
        policies = {"gap": self.dst_gap, "overlap": self.dst_overlap}
        dst = {name: value for name, value in policies.items() if value is not None}
        fields = {name: value for name, value in given.items() if value is not None}
        return {**fields, "dst": dst} if dst else fields

    def _timing(self, *, needs_timing: bool) -> dict[str, object]:
        given: dict[str, object] = {
            "cron_expr": self.expr or None,
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
            found = " and ".join(OPTION_NAMES[name] for name in names)
            raise _fault(
                "timing",
                f"give exactly one of {', '.join(OPTION_NAMES[name] for name in given)}; "
                f"{found + ' are' if found else 'none is'} given",
            )
        match names[0]:
            case "cron_expr":
                return {"cron_expr": _expression(self.expr or [])}
            case "interval_seconds":
                return {
                    "interval_seconds": _number("interval_seconds", self.interval_seconds or "")
                }
            case name:
                return {name: given[name]}


NO_OPTIONS = TimingOptions()


def timed(*, without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replaces a command's parameter `options` by the timing options, except `without`.

    Typer derives the options of a command from its signature.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            timing = {name: given.pop(name) for name in _PARAMETERS.keys() & given.keys()}
            command(options=structs.replace(NO_OPTIONS, **timing), **given)

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for own in signature.parameters.values():
            parameters += _PARAMETERS.values() if own.name == "options" else [own]
        kept = [parameter for parameter in parameters if parameter.name != without]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return give


_PARAMETERS = {
    name: inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
    )
    for name, annotation in get_type_hints(TimingOptions, include_extras=True).items()
}


def _expression(words: list[str]) -> str:
    if len(words) > 1:
        raise _fault(
            "cron_expr",
            f"put the expression in quotes; {len(words)} words are given instead of one",
        )
    return words[0]


def _number(field: str, text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise _fault(field, f"must be a whole number, not {text!r}")
    return int(text)


def _fault(field: str, message: str) -> InvalidInput:
    return InvalidInput([FieldError(field, message)])
