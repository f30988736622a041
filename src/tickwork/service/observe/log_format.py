"""How the lines of a process of ours look: JSON for machines, or plain for a terminal.

Only a process that we run (`tickwork run`, `app.run()`) is set up here; inside somebody else's
(`app.running()`) logging is theirs. An app that has set up the root logger by itself keeps that,
unless somebody asks for a format.
"""

from __future__ import annotations

import json
import logging
import reprlib
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.stdlib import ProcessorFormatter

from tickwork.app.firing import log_context
from tickwork.service.observe.log_events import MULTILINE_FIELD, LogEvent, format_value

Event = MutableMapping[str, Any]

_NOT_EXTRA = frozenset(
    # What formatters of others leave behind, and uvicorn's event once more, in colours.
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "color_message"}
)
_RENDERED = frozenset({"exception", "stack"})
"""Names that mean more than a field to what makes a text of a line."""

_DEPTH_MAX = 50
"""Of values within values. Whatever writes a line has its own bound, and would lose the line."""

_PLAIN = (str, bool, type(None))


class _Short(reprlib.Repr):
    """Describes what cannot describe itself, too, by its type's name at worst."""

    def repr1(self, x: Any, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:  # Of others' code, or of Python's own: a number of too many digits.
            return object.__repr__(x)


_short = _Short()
_short.maxother = _short.maxstring = _short.maxlong = 1_000
_short.maxdict = _short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = 100


def choose_format(wanted: str | None) -> str:
    """The format that is wanted, `json` or `console`; else what fits where stderr goes."""
    return wanted or ("console" if sys.stderr.isatty() else "json")


def configure_logging(wanted: str | None, level: str) -> None:
    """Sets up this process's logging, on stderr.

    structlog, where the app has not configured it, takes the same way.
    """
    root = logging.getLogger()
    if root.handlers and wanted is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(build_formatter(choose_format(wanted), colors=sys.stderr.isatty()))
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if not structlog.is_configured():
        structlog.configure(
            processors=[*_common(), ProcessorFormatter.wrap_for_formatter],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


def build_formatter(log_format: str, *, colors: bool = False) -> ProcessorFormatter:
    """What makes a text of a record, whoever logged it."""
    if log_format == "json":
        rendering: list[Any] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        plain = structlog.dev.plain_traceback
        rendering = [
            _harmless,
            structlog.dev.ConsoleRenderer(
                colors=colors, exception_formatter=plain, sort_keys=False, pad_event_to=0
            ),
        ]
    return ProcessorFormatter(
        foreign_pre_chain=[_own_fields, *_common(), _extra],
        processors=[ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _common() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        _in_handler,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _own_fields(_: object, __: str, event: Event) -> Event:
    """The fields of a line of ours."""
    told = event["_record"].msg
    if isinstance(told, LogEvent):
        event.update(told.fields)
        event["event"] = told.event
    return event


def _extra(_: object, __: str, event: Event) -> Event:
    """What was logged as `extra=`. Under a name that is taken it is `extra_…`, unless it is the
    same: an app may have put there what we do."""
    for name, value in event["_record"].__dict__.items():
        if name in _NOT_EXTRA:
            continue
        field, told = _name(name), _told(value)
        if field not in event and field not in _RENDERED:
            event[field] = told
        elif event.get(field) != told:
            event.setdefault(f"extra_{field}", told)
    return event


def _name(given: object) -> str:
    """Any key of a mapping, as the name of a field."""
    name = given if isinstance(given, str) else _short.repr(given)
    return name if name.isprintable() else format_value(name)


def _told(value: object) -> object:
    """A value as data that every format can show; what is no data as it describes itself."""
    if type(value) in _PLAIN:
        return value
    try:
        told = json.loads(json.dumps(value, default=_short.repr, allow_nan=False))
        return _short.repr(value) if _is_deeper(told, _DEPTH_MAX) else told
    except Exception:  # Odd keys, a circle, NaN, too many digits; and whatever others' code raises.
        return _short.repr(value)


def _is_deeper(told: Any, levels: int) -> bool:
    within = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in within)


def _in_handler(_: object, __: str, event: Event) -> Event:
    """What is being handled where this was logged."""
    for name, value in log_context().items():
        event.setdefault(name, value)
    return event


def _harmless(_: object, __: str, event: Event) -> Event:
    """On a terminal nothing that came from outside is more than text."""
    for name, value in event.items():
        if (
            isinstance(value, str)
            and name not in (MULTILINE_FIELD, "event")
            and not value.isprintable()
        ):
            event[name] = format_value(value)
    return event
