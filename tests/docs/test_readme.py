"""The README's commands work in the order in which they stand."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.snippets import PageRunner, blocks
from tests.kit.waiting import TIMEOUT_SECONDS, eventually_blocking

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCREEN_LINES = 60
DEMO, OWN_PROJECT = README.split("## Ten lines")


def test_the_examples_run_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICKWORK_DATABASE", raising=False)
    with asyncio.Runner() as runner:
        PageRunner("README.md", tmp_path, runner).run(OWN_PROJECT)


def test_it_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= SCREEN_LINES * 2


def test_the_first_picture_is_the_console() -> None:
    first = re.search(r"!\[.*?\]\((.*?)\)|```mermaid", README)
    assert first is not None
    assert first[1] == "docs/pictures/overview-light.webp"


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"^make (\w+)", DEMO, re.MULTILINE)} <= {*targets}


def demo_commands() -> Iterator[list[str]]:
    """The commands for a second terminal while the demo runs."""
    for block in blocks(DEMO):
        if "curl" in block.text:
            yield from (shlex.split(line, comments=True) for line in block.text.splitlines())


def test_the_demo_can_be_used_from_another_terminal(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    environment.pop("TICKWORK_DATABASE", None)
    tickwork = [sys.executable, "-m", "tickwork"]
    run = (ROOT / "Makefile").read_text().split("tickwork run ")[1].splitlines()[0].split()
    output = tmp_path / "output"
    with output.open("wb") as sink:
        node = subprocess.Popen(
            [*tickwork, "run", *run, "--port", str(port)],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=tmp_path,
        )
    try:
        eventually_blocking(lambda: "handling" in output.read_text())
        for words in demo_commands():
            match words[0]:
                case "tickwork":
                    ended = subprocess.run(
                        [*tickwork, *words[1:]],
                        env=environment,
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                        timeout=TIMEOUT_SECONDS,
                    )
                    assert (ended.returncode, ended.stderr) == (0, ""), words
                case "curl":
                    answer = httpx.get(words[1].replace("8080", str(port)), timeout=TIMEOUT_SECONDS)
                    assert answer.status_code == 200
                case other:
                    assert (other, words[1]) == ("source", ".venv/bin/activate")
        eventually_blocking(lambda: "hello, Ada!" in output.read_text())
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(TIMEOUT_SECONDS) == 0, output.read_text()
