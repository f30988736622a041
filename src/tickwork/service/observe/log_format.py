"""Formats the log lines of a process of ours: JSON, or plain text for a terminal.

Only a process that we run (`tickwork run`, `app.run()`) is configured here; in somebody else's
process (`app.running()`) logging is theirs. An app that has configured the root logger keeps its
configuration, unless a format is requested.
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
    # Added by other formatters, and uvicorn's colored copy of the event.
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "color_message"}
)
_RENDERED = frozenset({"exception", "stack"})
"""Names that the renderers treat specially."""

_DEPTH_MAX = 50
"""Maximum nesting depth of a value. A deeper one would make the JSON encoder lose the line."""

_PLAIN = (str, bool, type(None))


class _Short(reprlib.Repr):
    """A `repr` that never raises: at worst it shows the type's name."""

    def repr1(self, x: Any, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:  # Raised by other code, or by Python for a number with too many digits.
            return object.__repr__(x)


_short = _Short()
for _limit in ("maxother", "maxstring", "maxlong"):
    setattr(_short, _limit, 1_000)
for _limit in ("maxdict", "maxlist", "maxtuple", "maxset", "maxfrozenset"):
    setattr(_short, _limit, 100)


def choose_format(requested: str | None) -> str:
    """The requested format, `json` or `console`; otherwise by whether stderr is a terminal."""
    return requested or ("console" if sys.stderr.isatty() else "json")


def configure_logging(requested: str | None, level: str, process: int | None = None) -> None:
    """Configures this process to log to stderr, with its number in each line if it has one.

    structlog is configured the same way, unless the app has configured it.
    """
    root = logging.getLogger()
    if root.handlers and requested is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(is_worth_logging)
    log_format, colors = choose_format(requested), sys.stderr.isatty()
    handler.setFormatter(build_formatter(log_format, colors=colors, process=process))
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if not structlog.is_configured():
        structlog.configure(
            processors=[*_common(), ProcessorFormatter.wrap_for_formatter],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


def is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether a record is no leftover of a connection that was given up while it was opened: the
    driver drops the error, and asyncio reports it later with a traceback."""
    return not (record.name == "asyncio" and _DROPPED_CONNECT in record.getMessage())


_DROPPED_CONNECT = "unexpected connection_lost() call"


def build_formatter(
    log_format: str, *, colors: bool = False, process: int | None = None
) -> ProcessorFormatter:
    """The formatter for all log records, ours and those of other libraries."""

    def add_number(_: object, __: str, event: Event) -> Event:
        event.setdefault("process", process)
        return event

    if log_format == "json":
        rendering: list[Any] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        plain = structlog.dev.plain_traceback
        rendering = [
            _escape,
            structlog.dev.ConsoleRenderer(
                colors=colors, exception_formatter=plain, sort_keys=False, pad_event_to=0
            ),
        ]
    return ProcessorFormatter(
        foreign_pre_chain=[_own_fields, *_common(), _extra],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            *([] if process is None else [add_number]),
            *rendering,
        ],
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
    """Adds the fields of our own log events."""
    message = event["_record"].msg
    if isinstance(message, LogEvent):
        event.update(message.fields)
        event["event"] = message.event
    return event


def _extra(_: object, __: str, event: Event) -> Event:
    """Adds what was logged as `extra=`. If the name is taken by a different value, the field is
    called `extra_…`; an app may have added the same fields as we do."""
    for name, value in event["_record"].__dict__.items():
        if name in _NOT_EXTRA:
            continue
        field, data = _name(name), _as_data(value)
        if field not in event and field not in _RENDERED:
            event[field] = data
        elif event.get(field) != data:
            event.setdefault(f"extra_{field}", data)
    return event


def _name(key: object) -> str:
    """A field name for any key of a mapping."""
    name = key if isinstance(key, str) else _short.repr(key)
    return name if name.isprintable() else format_value(name)


def _as_data(value: object) -> object:
    """A value as plain data that every format can show; other objects as their `repr`."""
    if type(value) in _PLAIN:
        return value
    try:
        data = json.loads(json.dumps(value, default=_short.repr, allow_nan=False))
        return _short.repr(value) if _is_deeper(data, _DEPTH_MAX) else data
    except Exception:  # Unsupported keys, a cycle, NaN, too many digits, or an error of other code.
        return _short.repr(value)


def _is_deeper(data: Any, levels: int) -> bool:
    children = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return levels == 0 or any(_is_deeper(child, levels - 1) for child in children)


def _in_handler(_: object, __: str, event: Event) -> Event:
    """Adds the fields of the message that is being handled."""
    for name, value in log_context().items():
        event.setdefault(name, value)
    return event


def _escape(_: object, __: str, event: Event) -> Event:
    """Escapes control characters, so that outside input cannot control a terminal."""
    for name, value in event.items():
        if (
            isinstance(value, str)
            and name not in (MULTILINE_FIELD, "event")
            and not value.isprintable()
        ):
            event[name] = format_value(value)
    return event
