"""Errors that end the start of a process: sentences for people, or lines of the log if that was
asked to be JSON. Also those of the usage and of settings, which come before the settings are known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tickwork.cli.output import errors_written_by

STARTS = frozenset({"run", "up"})
"""Commands whose process has a log."""

_JSON = "json"
_OPTION = "--log-format"
_VARIABLE = "TICKWORK_LOG_FORMAT"
_FILE = "tickwork.toml"


def errors_of_start(words: Sequence[str]) -> AbstractContextManager[None]:
    """Inside, errors of a command that starts a process are lines of its log."""
    if not words or words[0] not in STARTS or _asked_format(words) != _JSON:
        return nullcontext()
    return errors_written_by(write_error)


def write_error(sentence: str, *, is_warning: bool = False, code: str | None = None) -> None:
    """Writes an error that ends a start, or a warning, as a line of a log in JSON."""
    import logging

    from tickwork.service.observe.log_events import LogEvent
    from tickwork.service.observe.log_set_up import LogSetUp

    LogSetUp(_JSON, "warning").apply()
    log = logging.getLogger("tickwork")
    if is_warning:
        log.warning(LogEvent("the process starts with a doubtful setting", warning=sentence))
    else:
        log.error(LogEvent("the process could not start", error=sentence, code=code))


def _asked_format(words: Sequence[str]) -> object:
    """The format that an option, the environment or the file asks for, which may be a wrong one."""
    for word, following in reversed([*zip(words, [*words[1:], ""], strict=True)]):
        if word == _OPTION:
            return following
        if word.startswith(f"{_OPTION}="):
            return word.removeprefix(f"{_OPTION}=")
    return os.environ.get(_VARIABLE) or _format_in_file()


def _format_in_file() -> object:
    import tomllib

    tables: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        tables = tomllib.loads(Path(_FILE).read_text(encoding="utf-8"))
    server = tables.get("server")
    return server.get("log_format") if isinstance(server, dict) else None
