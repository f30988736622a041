"""Running a page: its blocks in their order, in one namespace and one folder.

| block | what is done with it |
|---|---|
| python | run, with `await` at its top level, in the same namespace as those before it |
| text | must be what the block before it printed |
| console | each `$ tickwork …` is run as a process; what follows it must be what it says |
| toml | is written to `tickwork.toml` |

In what is expected, `…` stands for anything within a line.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND_SECONDS_MAX = 60


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page that have a language."""
    for found in _BLOCK.finditer(page):
        yield Block(found[1], found[2], page.count("\n", 0, found.start()) + 2)


class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    def __init__(self, name: str, folder: Path, runner: asyncio.Runner) -> None:
        self._name, self._folder, self._runner = name, folder, runner
        self._namespace: dict[str, Any] = {}
        self._printed = ""

    def follow(self, page: str) -> None:
        for block in blocks(page):
            match block.language:
                case "python":
                    self._printed = self._run(block)
                case "text":
                    self._compare(block, block.text, self._printed)
                case "console":
                    self._type(block)
                case "toml":
                    (self._folder / "tickwork.toml").write_text(block.text)
                case language:
                    raise AssertionError(f"{self._name}:{block.line} nobody runs {language}")

    def _run(self, block: Block) -> str:
        # Lines are counted from the page's beginning, so that a failure points into the page.
        source = "\n" * (block.line - 1) + block.text
        code = compile(source, self._name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(code, self._namespace)  # noqa: S307 (the page is ours)
            if inspect.iscoroutine(result):
                self._runner.run(result)
        return printed.getvalue()

    def _type(self, block: Block) -> None:
        for command, expected in _commands(block.text):
            words = shlex.split(command)
            assert words[0] == "tickwork", command
            ended = subprocess.run(
                [sys.executable, "-m", *words],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_COMMAND_SECONDS_MAX,
            )
            assert "Traceback" not in ended.stdout, ended.stdout
            self._compare(block, expected, ended.stdout)

    def _compare(self, block: Block, expected: str, found: str) -> None:
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
        if re.fullmatch(pattern, found.strip()) is None:
            raise AssertionError(
                f"{self._name}:{block.line} says\n{expected}\nand there came\n{found}"
            )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what is expected of it; a backslash goes on in the next line."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        yield command, expected
