"""Follows a page as a reader with two terminals does: every command is given to a shell.
A command of ours without pipes and the like is run by a fork instead, which saves its imports.

| block | what happens |
|---|---|
| console, `$ tickwork run` | starts in the first terminal, goes on, and must print these lines |
| console, `^C` | stops what runs in the first terminal; it must exit with 0 |
| console, `$ …` | runs in the second terminal; its output must equal the lines below |
| text | the first terminal prints these lines, in this order, perhaps among others |
| python `# app.py, at the end` | is appended to that file |
| diff | lines with `-` are replaced by lines with `+` |
| `ID` in a command | is the first id in the output before it |
| sh | is not run, unless the test says so: it installs something |

In expected output, `…` matches anything within a line, or any lines if it is alone on its line. One
space matches several, because the columns of a table are as wide as its ids and times. A question
whose answer differs is asked again a few times: a slot may be running just then.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.snippets import TERMINAL_ENVIRONMENT, Block, blocks, commands
from tests.kit.process import ForkedCommand
from tests.kit.waiting import eventually_blocking

_COMMAND_SECONDS_MAX = 180
_ANSWER_SECONDS_MAX = 180
_APPENDED = re.compile(r"# (\w+\.py), at the end\n")
_ID = re.compile(r"\b[a-z]+_[0-9a-f]{32}\b|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHELL = re.compile(r"[|;&<>$`]")
"""What only a shell understands."""

_PLUGIN = "tickwork.testing.pytest_plugin"


class Walk:
    """Two terminals in one folder."""

    def __init__(self, name: str, folder: Path, *, bin_folder: Path | None = None) -> None:
        self._name, self._folder = name, folder
        self._is_installed_here = bin_folder is None
        self.environment = _environment(bin_folder)
        self._output = folder.parent / f"{folder.name}.output"
        self._first: subprocess.Popen[bytes] | None = None
        self._seen = 0
        self._id = ""
        self.prefix = ""
        """What the shell does before each command."""

    def run(self, page: str) -> None:
        """Follows the page from its first block to its last."""
        try:
            for block in blocks(page):
                self._follow(block)
            assert self._first is None, f"{self._name} does not stop what it started"
        finally:
            if self._first is not None:
                self._first.kill()
                self._first.wait()

    def _follow(self, block: Block) -> None:
        match block.language:
            case "console":
                self._run_commands(block)
            case "text":
                self._expect_lines(block)
            case "python":
                self._append(block)
            case "diff":
                self._change(block)
            case "sh":
                pass
            case language:
                raise AssertionError(
                    f"{self._name}:{block.line} cannot follow a block of {language}"
                )

    def _run_commands(self, block: Block) -> None:
        text = block.text
        if text.startswith("^C\n"):
            self._interrupt()
            text = text.removeprefix("^C\n")
        for command, expected in commands(text):
            if command.startswith("tickwork run "):
                self._start(command, expected, block)
            else:
                self._expect_output(block, command, expected)

    def output(self, command: str) -> str:
        """What a command prints in the second terminal."""
        is_plain = command.startswith("tickwork ") and not _SHELL.search(command)
        if self._is_installed_here and is_plain and not self.prefix:
            return self._forked_output(shlex.split(command))
        finished = subprocess.run(
            ["bash", "-c", self.prefix + command],  # noqa: S607
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS_MAX,
            env=self.environment,
        )
        return finished.stdout

    def _forked_output(self, words: list[str]) -> str:
        """The same without a shell, in a process that has imported the package already."""
        with tempfile.TemporaryFile() as sink:
            forked = ForkedCommand(words, sink, self._folder, self.environment)
            forked.wait(_COMMAND_SECONDS_MAX)
            sink.seek(0)
            return sink.read().decode()

    def _start(self, command: str, expected: str, block: Block) -> None:
        assert self._first is None, f"{self._name}:{block.line} the first terminal is in use"
        with self._output.open("wb") as sink:
            self._first = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],  # noqa: S607
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=self.environment,
            )
        self._seen = 0
        self._expect(expected, block)

    def _interrupt(self) -> None:
        assert self._first is not None, f"{self._name}: ^C, but nothing runs"
        self._first.send_signal(signal.SIGINT)
        assert self._first.wait(_COMMAND_SECONDS_MAX) == 0, self._output.read_text()
        self._first = None

    def _expect_lines(self, block: Block) -> None:
        assert self._first is not None, f"{self._name}:{block.line} nothing runs"
        for line in block.text.splitlines():
            self._expect(line, block)

    def _expect(self, expected: str, block: Block) -> None:
        """Waits until the first terminal has printed lines after those it has shown already."""
        pattern = re.compile(_pattern(expected))

        def is_printed() -> bool:
            found = pattern.search(self._output.read_text(), self._seen)
            self._seen = self._seen if found is None else found.end()
            ended = self._first is not None and self._first.poll() is not None
            assert found is not None or not ended, self._output.read_text()
            return found is not None

        try:
            eventually_blocking(is_printed, timeout_seconds=_COMMAND_SECONDS_MAX)
        except TimeoutError:
            printed = self._output.read_text()
            raise AssertionError(
                f"{self._name}:{block.line} waited for\n{expected}\nbut it printed\n{printed}"
            ) from None

    def _append(self, block: Block) -> None:
        named = _APPENDED.match(block.text)
        assert named, f"{self._name}:{block.line} does not say where it belongs"
        with (self._folder / named[1]).open("a", encoding="utf-8") as file:
            file.write("\n\n" + block.text[named.end() :])

    def _change(self, block: Block) -> None:
        lines = block.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        (path,) = [
            file for file in self._folder.glob("*.py") if old in file.read_text(encoding="utf-8")
        ]
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    def _expect_output(self, block: Block, command: str, expected: str) -> None:
        outputs: list[str] = []

        def is_as_expected() -> bool:
            outputs.append(self.output(re.sub(r"\bID\b", self._id, command)))
            assert "Traceback" not in outputs[-1], outputs[-1]
            return re.fullmatch(_pattern(expected), outputs[-1].strip() + "\n") is not None

        try:
            eventually_blocking(is_as_expected, timeout_seconds=_ANSWER_SECONDS_MAX)
        except TimeoutError:
            told = f"{self._name}:{block.line} `{command}` should print\n{expected}"
            raise AssertionError(f"{told}\nbut printed\n{outputs[0]}") from None
        found = _ID.search(outputs[-1])
        self._id = self._id if found is None else found[0]


def _pattern(expected: str) -> str:
    return "".join(map(_line_pattern, expected.strip().splitlines()))


def _line_pattern(line: str) -> str:
    if line == "…":
        return "(?:.*\n)*"
    escaped = ".*".join(re.escape(part) for part in line.strip().split("…"))
    return " *" + re.sub(r"(\\ )+", " +", escaped) + " *\n"


def _environment(bin_folder: Path | None) -> dict[str, str]:
    """The environment of a terminal in which Tickwork is installed, and nothing is set."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TICKWORK_")}
    if bin_folder is None:
        # Of all that is installed here, a reader has only pytest and our plugin.
        own |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": _PLUGIN}
        bin_folder = Path(sys.executable).parent
    return {**own, **TERMINAL_ENVIRONMENT, "PATH": f"{bin_folder}{os.pathsep}{own['PATH']}"}
