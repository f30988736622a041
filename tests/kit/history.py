"""A history of what processes asked for and were told, as JSON lines in one file.

Contract: any number of processes append to one file; each event is one `write` to a file opened
with O_APPEND, so that lines never mix. An operation is an `invoke` and what followed: `ok` (it
happened), `fail` (it did not), or nothing (unknown: it may have happened). `info` stands alone.
A call may have several `ok`s: one per message that a claim returned, for example.
Times are CLOCK_MONOTONIC, the same for all processes of a machine: between its `invoke` and its
`ok` an operation took effect. A writer that is killed may leave a torn line: it is counted, and
spoils no other, since every line also begins with a line break.
"""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

Kind = Literal["invoke", "ok", "fail", "info"]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a history."""

    at_ns: int
    pid: int
    process: str
    sequence: int
    """Numbers the events of one writer."""
    kind: Kind
    op: str
    call: int | None = None
    """For an ok or a fail: the sequence number of its invoke."""
    facts: dict[str, object] = {}

    def text(self, name: str) -> str:
        value = self.facts.get(name)
        if not isinstance(value, str):
            raise TypeError(f"{name}={value!r} is no text in {self}")
        return value

    def number(self, name: str) -> int:
        value = self.facts.get(name)
        if not isinstance(value, int):
            raise TypeError(f"{name}={value!r} is no number in {self}")
        return value


class Call(NamedTuple):
    """An invoked operation; answered with `HistoryWriter.ok` or `fail`."""

    sequence: int
    op: str


class HistoryWriter:
    def __init__(
        self, path: Path, process: str, *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._process = process
        self._clock_ns = clock_ns
        self._numbers = itertools.count(1)

    def invoke(self, op: str, **facts: object) -> Call:
        """To be called before the operation starts."""
        return Call(self._write("invoke", op, None, facts), op)

    def ok(self, call: Call, **facts: object) -> None:
        self._write("ok", call.op, call.sequence, facts)

    def fail(self, call: Call, **facts: object) -> None:
        """The operation certainly did not happen. An unknown result is not written."""
        self._write("fail", call.op, call.sequence, facts)

    def info(self, op: str, **facts: object) -> None:
        self._write("info", op, None, facts)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, kind: Kind, op: str, call: int | None, facts: dict[str, object]) -> int:
        sequence = next(self._numbers)
        event = Event(
            at_ns=self._clock_ns(),
            pid=os.getpid(),
            process=self._process,
            sequence=sequence,
            kind=kind,
            op=op,
            call=call,
            facts=facts,
        )
        line = b"\n" + msgspec.json.encode(event) + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes of a history event were written")
        return sequence


class History(NamedTuple):
    events: list[Event]
    """In order of time; those of one writer in the order written."""
    torn: int
    """Lines that are not events: at most one per killed writer."""


def read_history(path: Path, start_bytes: int = 0) -> History:
    """The events, from the start or from an earlier size of the file on."""
    events: list[Event] = []
    torn = 0
    with path.open("rb") as file:
        file.seek(start_bytes)
        lines = file.read().split(b"\n")
    for line in lines:
        if line:
            try:
                events.append(msgspec.json.decode(line, type=Event))
            except (msgspec.DecodeError, UnicodeDecodeError):
                torn += 1
    events.sort(key=lambda event: (event.at_ns, event.pid, event.sequence))
    return History(events, torn)
