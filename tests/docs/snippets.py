"""Running a page: its blocks in their order, in one namespace and one folder.

| block | what is done with it |
|---|---|
| python | run, with `await` at its top level, in the same namespace as those before it |
| python that begins with `# shop.py` | is written to that file, which later blocks can import |
| text | must be what the block before it printed |
| console | each `$ tickwork …` is run as a process; what follows it must be what it says |
| `$ tickwork run …` | the same; it is told to stop when it has said that, and must then end well |
| toml | is written to `tickwork.toml` |

In what is expected, `…` stands for anything within a line.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.waiting import eventually_blocking

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+)\.py\n")
_COMMAND_SECONDS_MAX = 60

_AT_A_TERMINAL = {"PYTHONUNBUFFERED": "1", "TICKWORK_LOG_FORMAT": "console"}
"""What a reader sees who runs it there."""


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
        self._modules: list[str] = []

    def follow(self, page: str) -> None:
        sys.path.insert(0, str(self._folder))
        try:
            self._follow(page)
        finally:
            sys.path.remove(str(self._folder))
            for name in self._modules:
                sys.modules.pop(name, None)

    def _follow(self, page: str) -> None:
        for block in blocks(page):
            match block.language:
                case "python" if named := _FILE.match(block.text):
                    self._write(named[1], block.text)
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

    def _write(self, module: str, text: str) -> None:
        assert module not in sys.modules, module
        (self._folder / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        self._modules.append(module)

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
            ends_itself = words[1:2] != ["run"]
            said = self._said(words) if ends_itself else self._said_until(words, expected)
            assert "Traceback" not in said, said
            self._compare(block, expected, said)

    def _said(self, words: list[str]) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS_MAX,
        )
        return ended.stdout

    def _said_until(self, words: list[str], expected: str) -> str:
        """What a command says that goes on until it is told to stop."""
        output = self._folder / "said"
        with output.open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_AT_A_TERMINAL},
            )
        try:
            with contextlib.suppress(TimeoutError):  # Then it is told by what it said instead.
                eventually_blocking(
                    lambda: _fits(expected, output.read_text()) or process.poll() is not None,
                    timeout_seconds=_COMMAND_SECONDS_MAX,
                )
            said_before = output.read_text()
            process.terminate()
            assert process.wait(_COMMAND_SECONDS_MAX) == 0, output.read_text()
            assert "Traceback" not in output.read_text()
        finally:
            process.kill()
            process.wait()
        return said_before

    def _compare(self, block: Block, expected: str, found: str) -> None:
        if not _fits(expected, found):
            raise AssertionError(
                f"{self._name}:{block.line} says\n{expected}\nand there came\n{found}"
            )


def _fits(expected: str, found: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, found.strip()) is not None


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what is expected of it; a backslash goes on in the next line."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        yield command, expected
