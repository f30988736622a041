"""`tickwork init` writes an app whose own tests pass, and replaces nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tickwork.cli import app
from tickwork.wiring import load_settings

RUNNER = CliRunner()
FILES = ["app.py", "tickwork.toml", "test_app.py", "README.md"]


def test_an_empty_folder_gets_an_app_whose_tests_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = RUNNER.invoke(app, ["init"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    plugin = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "tickwork.testing.pytest_plugin",
    }
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        env={**os.environ, **plugin},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout


def test_the_settings_that_init_writes_are_valid(tmp_path: Path) -> None:
    RUNNER.invoke(app, ["init", str(tmp_path)])
    settings = load_settings({}, environ={}, folder=tmp_path)
    given = tomllib.loads((tmp_path / "tickwork.toml").read_text())["server"]
    assert {name: getattr(settings, name) for name in given} == given


def test_a_named_folder_is_created(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["init", str(tmp_path / "a" / "shop"), "--json"])
    assert json.loads(done.stdout) == {"folder": str(tmp_path / "a" / "shop"), "files": FILES}
    assert (tmp_path / "a" / "shop" / "app.py").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_folder_with_one_of_the_files_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = RUNNER.invoke(app, ["init", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{tmp_path} has {name} already" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = RUNNER.invoke(app, ["init", str(tmp_path / "file" / "shop")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot be written" in done.stderr
