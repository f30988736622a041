"""Shows an answer again and again: `--watch SECONDS`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

import click

from tickwork.cli.output import EXIT_BAD_USAGE, fail
from tickwork.cli.store_session import number

WATCH_SECONDS_MIN = 0.1
"""Minimum number of seconds between two looks."""

_CLEAR = "\x1b[H\x1b[2J"


def watched(show: Callable[[], None], every: str | None) -> None:
    """Runs `show` once, or again and again until Ctrl-C. A terminal is cleared before each look."""
    if every is None:
        show()
        return
    seconds = number(every, "--watch")
    if not seconds >= WATCH_SECONDS_MIN:
        fail(f"--watch: must be at least {WATCH_SECONDS_MIN} seconds", code=EXIT_BAD_USAGE)
    with suppress(KeyboardInterrupt):
        while True:
            if sys.stdout.isatty():
                click.echo(_CLEAR, nl=False)
            show()
            sys.stdout.flush()
            time.sleep(seconds)
