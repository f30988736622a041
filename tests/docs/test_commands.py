"""Every `tickwork …` that a page, a help text or a message names is a command with these options.

The command line parses what is written, and runs nothing. A placeholder such as `…`, `ID` or
`{name}` is a word like any other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.test_every_command import EVERY
from tests.docs.test_links import PAGES, ROOT
from tickwork.cli import app

SOURCES = sorted((ROOT / "src" / "tickwork").rglob("*.py"))
COMMAND_LINE: Any = app

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(tickwork(?: [^`]*)?)`")
_LINE = re.compile(r"^(?:\$ |\.venv/bin/)*(tickwork(?: .*)?)$", re.MULTILINE)
_FIELD = re.compile(r"\{[^{}]*\}")
PLACEHOLDERS = {"…", "X"}
"""Words for any command; `X` stands for a value that a message is formatted with."""

_ENDS = {*"|;&<>()", "&&", "||", ">>"}
"""Words at which a shell ends a command."""


def written(page: str) -> Iterator[str]:
    """The commands that a page names: in its sentences, and as lines of its blocks."""
    blocks = _FENCED.findall(page)
    for sentence_command in _INLINE.findall(_FENCED.sub("", page)):
        yield " ".join(sentence_command.split())
    for block in blocks:
        yield from _LINE.findall(block.replace("\\\n", " "))


def said(source: str) -> Iterator[str]:
    """The commands that a module names in its messages and docstrings."""
    for line in source.splitlines():
        yield from (_FIELD.sub("X", command) for command in _INLINE.findall(line))


def words_of(text: str) -> list[str]:
    """The words of a command, as a shell splits them; what ends it is a word, too."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return [*words]


def fault(text: str) -> str | None:
    """What the command line refuses; None if it takes the command."""
    try:
        words = words_of(text)[1:]
    except ValueError as error:
        return str(error)
    command, path = COMMAND_LINE, "tickwork"
    while words and (inner := getattr(command, "commands", None)) is not None:
        word = words[0]
        if word in PLACEHOLDERS:
            return None
        if word.startswith("-"):  # An option of the group.
            break
        if word not in inner:
            return f"{path} has no command {word}"
        while words[1:2] == ["|"] and words[2:3] and words[2] in inner:
            del words[1:3]  # Commands to choose from: `queues pause | resume`.
        command, path, words = inner[word], f"{path} {word}", words[1:]
    words = words[: next((n for n, word in enumerate(words) if word in _ENDS), len(words))]
    try:
        _parse(command, path, [word for word in words if word not in ("--help", "-h")])
    except click.ClickException as error:
        return f"{path}: {error.format_message()}"
    return None


def _parse(command: Any, path: str, words: list[str]) -> None:
    """Raises what the command raises for these words; its defaults and values are not asked."""
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    known |= {"--install-completion", "--show-completion"} if path == "tickwork" else set()
    if hasattr(command, "commands"):
        unknown = [word for word in words if word.startswith("-") and word not in known]
        if unknown:
            raise click.BadParameter(f"No such option {unknown[0]!r}")
        return
    command.make_context(path, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    commands = {*written(page.read_text(encoding="utf-8"))}
    faults = {text: refused for text in commands if (refused := fault(text)) is not None}
    assert not faults


def test_every_command_that_a_message_names_exists() -> None:
    commands = {text for path in SOURCES for text in said(path.read_text(encoding="utf-8"))}
    assert len(commands) > 50
    faults = {text: refused for text in commands if (refused := fault(text)) is not None}
    assert not faults


def test_every_command_that_a_help_text_names_exists() -> None:
    texts = [command.help or "" for command in EVERY.values()]
    texts += [getattr(param, "help", None) or "" for one in EVERY.values() for param in one.params]
    commands = {text for help_text in texts for text in written(help_text)}
    faults = {text: refused for text in commands if (refused := fault(text)) is not None}
    assert commands
    assert not faults


@pytest.mark.parametrize(
    ("page", "refused"),
    [
        ("`tickwork next '@daily' --count 3`", "No such option '--count'"),
        ("```sh\n$ tickwork queues lst | cat\n```", "tickwork queues has no command lst"),
        ("`tickwork keys\nrevoke ID --url URL`", "No such option '--url'"),
        ("`tickwork queues pause | resume QUEUE --tz UTC`", "No such option '--tz'"),
        ("`tickwork queues pause a b`", "unexpected extra argument"),
        ("`tickwork topology --fromat mermaid`", "No such option '--fromat'"),
        ("`tickwork queues list --database … --json`", None),
        ("```console\n$ tickwork next '@daily' --limit \\\n  3  # three\n```", None),
    ],
)
def test_a_wrong_command_is_found(page: str, refused: str | None) -> None:
    (text,) = written(page)
    found = fault(text)
    assert found is None if refused is None else refused in str(found)
