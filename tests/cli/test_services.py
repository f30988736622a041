"""`tickwork services`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tickwork.cli import app

FILE = """
[[services]]
name = "apimom"
url = "https://apimom.example.com"
callers = ["gatherfeed", "router"]

[[services]]
name = "itself"
"""


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["services", "list", *words])
    return result.exit_code, result.stdout, result.stderr


def test_the_services_of_a_file_or_an_app_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run()[0] == 2
    assert "there is no file tickwork.toml; name one with --file, or an app" in run()[2]
    (tmp_path / "tickwork.toml").write_text(FILE)
    code, shown, _ = run()
    assert (code, [line.split() for line in shown.splitlines()]) == (
        0,
        [
            ["service", "url", "callers"],
            ["apimom", "https://apimom.example.com", "gatherfeed,", "router"],
            ["itself", "in", "code"],
        ],
    )
    assert [load["name"] for load in json.loads(run("--json")[1])] == ["apimom", "itself"]
    (tmp_path / "served.py").write_text(
        "from tickwork import Tickwork\n\napp = Tickwork()\n"
        'app.service("keys", "https://keys.example.com")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "keys     https://keys.example.com" in run("--app", "served:app")[1]
    sys.modules.pop("served")
    (tmp_path / "tickwork.toml").write_text("")
    assert run() == (0, "there are no services\n", "")
    assert "not both" in run("--file", "a", "--app", "b:c")[2]
