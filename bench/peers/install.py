"""`python -m bench.peers.install`: the peers that are not there yet, each by itself.

One that cannot be installed keeps none of the others away; why is kept, shown with the results, and
the exit status is 1.
"""

from __future__ import annotations

import json
import subprocess
import sys

from bench.peers import FAILED, INSTALLED, NPM_PEERS, PEERS, environment, npm


def main() -> int:
    failed = [name for name in (*PEERS, *NPM_PEERS) if not _is_installed(name)]
    if failed:
        print(f"not installed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _is_installed(name: str) -> bool:
    """Installs it unless that was done with the same versions."""
    home, packages = environment(name), PEERS.get(name) or NPM_PEERS[name]
    wanted = "\n".join(packages)
    stamp, reason = home / INSTALLED, home / FAILED
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    print(f"installing {name} ...", file=sys.stderr, flush=True)
    for path in (stamp, reason):
        path.unlink(missing_ok=True)
    if name in NPM_PEERS:
        home.mkdir(parents=True, exist_ok=True)
        pinned = dict(package.rsplit("@", 1) for package in packages)
        # The overrides pin them for each other, too.
        wanted_by_us = {
            "dependencies": pinned,
            "overrides": {package_name: f"${package_name}" for package_name in pinned},
        }
        (home / "package.json").write_text(json.dumps(wanted_by_us))
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        commands = [[*npm(), "install", "--prefix", str(home), *quiet]]
    else:
        python = str(home / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
        commands = [[sys.executable, "-m", "venv", str(home)], [*pip, *packages]]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            home.mkdir(parents=True, exist_ok=True)
            last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
            reason.write_text(f"{last}\n")
            print(done.stderr, file=sys.stderr)
            return False
    stamp.write_text(wanted)
    return True


if __name__ == "__main__":
    sys.exit(main())
