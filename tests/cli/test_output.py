"""Output: tables, escaped texts, and progress at a terminal only."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tickwork.cli.output import (
    escape_controls,
    in_zone,
    local_time,
    print_error,
    print_lines,
    print_table,
    progress,
    shortened,
    table,
    took,
)


class Terminal(io.StringIO):
    """Makes stdout or stderr a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_times_are_local_and_name_their_zone() -> None:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert local_time(noon) == "2026-01-05 13:00:00 CET"
    elsewhere = in_zone(noon, "America/New_York")
    assert elsewhere is not None
    assert local_time(elsewhere) == "2026-01-05 07:00:00 EST"
    assert in_zone("2026-01-05T12:00:00Z", "Nowhere/City") == noon
    assert in_zone(None, "UTC") is None


@pytest.mark.usefixtures("berlin")
def test_columns_fit_their_widest_cell_and_numbers_align_right() -> None:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    rows = [("a", 1, True, None, noon), ("bcd", 20, False, "x", None)]
    assert [*table(("n", "m", "f", "o", "at"), rows)] == [
        "n     m  f    o  at",
        "a     1  yes     2026-01-05 13:00:00 CET",
        "bcd  20       x",
    ]


def test_a_table_without_rows_prints_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a",), iter(()), none="there is nothing")
    assert capsys.readouterr().out == "there is nothing\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(None, ""), ("a\n b", "a b"), ("x" * 60, "x" * 60), ("x" * 61, "x" * 59 + "…")],
)
def test_a_long_text_is_cut_to_one_line_in_a_terminal(
    text: str | None, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert shortened(text) == line


def test_a_long_text_is_whole_in_a_pipe() -> None:
    assert shortened("x\n" * 61) == " ".join("x" * 61)


IDS = [UUID(f"0199a7c2-0000-7000-8000-{name}") for name in ("0a00000000ff", "0b00000000ff")]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_shows_short_ids_and_colours(
    no_color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    rows = [(IDS[0], "failed", "\x1b[2J"), (IDS[1], "odd", None)]
    print_table(("id", "status", "error"), rows, none="")
    plain = ["id           status  error", "a00000000ff  failed  \\x1b[2J", "b00000000ff  odd"]
    shown = terminal.getvalue().splitlines()
    assert [re.sub(r"\x1b\[\d+m", "", line).rstrip() for line in shown] == plain
    assert ("\x1b[31mfailed\x1b[0m" in shown[1]) == (not no_color)
    assert ["\x1b[1m" in line for line in shown] == [not no_color, False, False]
    assert "\x1b[2J" not in terminal.getvalue()


def test_a_pipe_gets_whole_ids_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "status"), [(IDS[0], "failed")], none="")
    assert capsys.readouterr().out.splitlines()[1] == f"{IDS[0]}  failed"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\x7f\x9b2J", "a\\x7f\\x9b2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202egnp.exe\u2028", "\\u202egnp.exe\\u2028"),
        ("\udcff", "\\udcff"),
        ("größe 👩\u200d💻 C:\\x", "größe 👩\u200d💻 C:\\x"),
    ],
)
def test_control_characters_are_escaped(
    text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert escape_controls(text) == shown
    assert [*table(("a", "b"), [(text, 1)])][1] == f"{shown}  1"
    print_lines([text])
    assert capsys.readouterr().out == f"{shown}\n"


def test_shortened_texts_and_errors_are_escaped_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Terminal())
        assert shortened("\x1b[31m" + "x" * 60) == "\\x1b[31m" + "x" * 51 + "…"
    print_error("there is no queue \x1b[2J")
    assert capsys.readouterr().err == "tickwork: there is no queue \\x1b[2J\n"


def test_progress_is_not_shown_without_a_terminal() -> None:
    with progress("working") as told:
        assert told is None


def test_progress_is_shown_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress("working") as told:
        assert told is not None
        told(1, 4)
    assert "working" in terminal.getvalue()
    assert "25%" in terminal.getvalue()


def test_a_short_time_is_in_the_unit_in_which_it_is_read_most_easily() -> None:
    shown = [took(seconds) for seconds in (None, 0.000201, 0.0123, 1.5, 99.94, 12_345.6)]
    assert shown == ["", "0.201 ms", "12.3 ms", "1.5 s", "99.9 s", "12,346 s"]
