"""Runs the code blocks of a page in order, in one namespace and one folder.

| block | what happens |
|---|---|
| python | is run, in the namespace of the blocks before it; may `await` at the top level |
| python that starts with `# shop.py` | is written to that file, which later blocks can import |
| text | must equal the output of the block before it |
| console | each `$ tickwork …`, `$ python …` is run; its output must equal the lines after it |
| `$ tickwork run …`, `… worker` | the same; it is stopped after that output and must exit with 0 |
| toml | is written to `tickwork.toml` |
| sh | is not run: it installs or starts something for people |
| mermaid | is a picture |
| javascript, go, sql, yaml | is not run: it is for other languages and programs |

In expected output, `…` matches anything within a line, or any lines if it is alone on its line.
"""

from __future__ import annotations

import ast
import asyncio
import codeop
import contextlib
import importlib
import inspect
import io
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.process import ForkedCommand
from tests.kit.waiting import eventually_blocking

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+)\.py\n")
_COMMAND_SECONDS_MAX = 180

TERMINAL_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "TICKWORK_LOG_FORMAT": "console",
    "TZ": "UTC",
}
"""Environment that gives the output a reader sees in a terminal, with times in UTC."""


class Block(NamedTuple):
    """A fenced block: its language, its text and its first line number."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Return the blocks of a page that have a language."""
    for found in _BLOCK.finditer(page):
        yield Block(found[1], found[2], page.count("\n", 0, found.start()) + 2)


def awaits(code: str) -> bool:
    """Whether a block awaits outside of a function."""
    compiled = compile(code, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return bool(compiled.co_flags & inspect.CO_COROUTINE)


def typing_fault(code: str) -> str | None:
    """What `python -m asyncio` would refuse if the block were pasted into it, or None."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed: list[str] = []
    for line in [*code.splitlines(), ""]:
        typed.append(line)
        try:
            if compiler("\n".join(typed)) is not None:
                typed = []
        except SyntaxError as error:
            return f"{line!r}: {error}; is a blank line missing before it?"
    return None if not any(typed) else "the block is not complete"


class PageRunner:
    """Runs the blocks of one page in its own folder."""

    def __init__(self, name: str, folder: Path, runner: asyncio.Runner) -> None:
        self._name, self._folder, self._runner = name, folder, runner
        self._namespace: dict[str, Any] = {}
        self._printed = ""
        self._modules: list[str] = []
        self._output_file = folder / "output"

    def run(self, page: str) -> None:
        sys.path.insert(0, str(self._folder))
        try:
            self._run_blocks(page)
        finally:
            sys.path.remove(str(self._folder))
            for name in self._modules:
                sys.modules.pop(name, None)

    def _run_blocks(self, page: str) -> None:
        for block in blocks(page):
            match block.language:
                case "python" if named := _FILE.match(block.text):
                    self._write(named[1], block.text)
                case "python":
                    self._printed = self._run_python(block)
                case "text":
                    self._compare(block, block.text, self._printed)
                case "console":
                    self._run_commands(block)
                case "toml":
                    (self._folder / "tickwork.toml").write_text(block.text)
                case "sh" | "javascript" | "go" | "mermaid" | "sql" | "yaml":
                    pass
                case language:
                    raise AssertionError(
                        f"{self._name}:{block.line} cannot run a block of {language}"
                    )

    def _write(self, module: str, text: str) -> None:
        assert module not in sys.modules, module
        path = self._folder / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()
        self._modules.append(module)

    def _run_python(self, block: Block) -> str:
        # Pad with empty lines so that tracebacks have the line numbers of the page.
        source = "\n" * (block.line - 1) + block.text
        code = compile(source, self._name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = eval(code, self._namespace)  # noqa: S307 (the page is ours)
            if inspect.iscoroutine(result):
                self._runner.run(result)
        return printed.getvalue()

    def _run_commands(self, block: Block) -> None:
        for command, expected in commands(block.text):
            words = shlex.split(command, comments=True)
            assert words[0] in ("tickwork", "python"), command
            is_finite = words[:2] != ["tickwork", "run"] and words[-1] != "worker"
            output = self._output(words) if is_finite else self._output_until(words, expected)
            assert "Traceback" not in output, output
            self._compare(block, expected, output)

    def _output(self, words: list[str]) -> str:
        with self._started(words) as command:
            command.wait(_COMMAND_SECONDS_MAX)
        return self._printed_by_command()

    def _output_until(self, words: list[str], expected: str) -> str:
        """Return the output of a command that runs until it is stopped."""
        with self._started(words) as command:
            with contextlib.suppress(TimeoutError):  # The comparison reports the output.
                eventually_blocking(
                    lambda: (
                        matches(expected, self._printed_by_command()) or command.poll() is not None
                    ),
                    timeout_seconds=_COMMAND_SECONDS_MAX,
                )
            output_before_stop = self._printed_by_command()
            command.send_signal(signal.SIGTERM)
            assert command.wait(_COMMAND_SECONDS_MAX) == 0, self._printed_by_command()
        assert "Traceback" not in self._printed_by_command()
        return output_before_stop

    @contextlib.contextmanager
    def _started(self, words: list[str]) -> Iterator[ForkedCommand]:
        with self._output_file.open("wb") as output:
            command = ForkedCommand(_module(words), output, self._folder, TERMINAL_ENVIRONMENT)
        try:
            yield command
        finally:
            command.send_signal(signal.SIGKILL)
            command.wait(_COMMAND_SECONDS_MAX)

    def _printed_by_command(self) -> str:
        return self._output_file.read_text()

    def _compare(self, block: Block, expected: str, found: str) -> None:
        if not matches(expected, found):
            raise AssertionError(
                f"{self._name}:{block.line} expected\n{expected}\nbut the output is\n{found}"
            )


def _module(words: list[str]) -> list[str]:
    """The module that a command runs, and its arguments."""
    if words[0] == "tickwork":
        return words
    assert words[:2] == ["python", "-m"] or words[1].endswith(".py"), words
    return words[2:] if words[1] == "-m" else [words[1].removesuffix(".py"), *words[2:]]


def matches(expected: str, found: str) -> bool:
    pattern = "".join(map(_line_pattern, expected.strip().splitlines()))
    return re.fullmatch(pattern, found.strip() + "\n" if found.strip() else "") is not None


def _line_pattern(line: str) -> str:
    if line == "…":
        return "(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split("…")) + "\n"


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Return each command with its expected output; a backslash continues the line."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.replace("\\\n", " ").partition("\n")
        yield command, expected
