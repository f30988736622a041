"""`--install-completion` and `--show-completion`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tickwork.cli import app


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bashrc"),
        ("zsh", ".zshrc"),
        ("fish", ".config/fish/completions/tickwork.fish"),
    ],
)
def test_completion_is_installed_once_and_other_lines_stay(
    shell: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("alias t=tickwork\n")
    for _ in range(2):
        installed = CliRunner().invoke(app, ["--install-completion"])
        assert (installed.exit_code, installed.stderr) == (0, "")
        assert str(path) in installed.stdout
    first, _, line = path.read_text().splitlines()
    assert first == "alias t=tickwork"
    assert f"_TICKWORK_COMPLETE={shell}_source tickwork" in line
    shown = CliRunner().invoke(app, ["--show-completion"])
    assert f"_TICKWORK_COMPLETE={shell}_complete" in shown.stdout


def test_a_shell_without_completion_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = CliRunner().invoke(app, ["--install-completion"])
    assert refused.exit_code == 1
    assert refused.stderr == (
        "tickwork: SHELL is tcsh; completion works in bash, zsh, fish, powershell\n"
    )
