"""`tickwork --install-completion`: completes commands and options in the shell of the user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tickwork.cli.output import fail

PROGRAM = "tickwork"
VARIABLE = "_TICKWORK_COMPLETE"

_LINES = {
    "bash": ("~/.bashrc", f'eval "$({VARIABLE}=bash_source {PROGRAM})"'),
    "zsh": ("~/.zshrc", f'eval "$({VARIABLE}=zsh_source {PROGRAM})"'),
    "fish": (
        f"~/.config/fish/completions/{PROGRAM}.fish",
        f"{VARIABLE}=fish_source {PROGRAM} | source",
    ),
    "powershell": (None, f"{PROGRAM} --show-completion | Out-String | Invoke-Expression"),
}
"""The file that each shell reads when it starts, and the line that completes. PowerShell is asked
for its file."""


def completion_script(command: click.Command) -> str:
    """What the shell of the user runs to complete this command."""
    found = get_completion_class(_shell())
    assert found is not None, "click knows every shell that is listed here"
    return found(command, {}, PROGRAM, VARIABLE).source()


def install_completion() -> str:
    """Adds completion to the file that the shell reads, once, and says so."""
    shell = _shell()
    known, line = _LINES[shell]
    path = _profile() if known is None else Path(known).expanduser()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line not in text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n{line}\n".lstrip(), encoding="utf-8")
    return f"{shell} completion installed in {path}; it takes effect in a new terminal"


def _shell() -> str:
    """The shell of the user."""
    usual = "powershell" if sys.platform == "win32" else ""
    name = Path(os.environ.get("SHELL", usual)).stem
    shell = "powershell" if name == "pwsh" else name
    if shell not in _LINES:
        fail(f"SHELL is {name or 'not set'}; completion works in {', '.join(_LINES)}")
    return shell


def _profile() -> Path:
    program = "powershell" if sys.platform == "win32" else "pwsh"
    asked = [program, "-NoProfile", "-Command", "echo $PROFILE"]
    return Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())  # noqa: S603
