"""Starts, kills, freezes and wakes the node processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MODULE = "examples.distributed_cron.node"
STOP_SECONDS_MAX = 30.0


class Fleet:
    """The nodes on one database. Each records its plans in a file."""

    def __init__(
        self, database: str, folder: Path, *, lease_seconds: float, ahead_seconds: float
    ) -> None:
        self._folder, self.lease_seconds = folder, lease_seconds
        self._arguments = (str(lease_seconds), str(ahead_seconds))
        self._environment = os.environ | {
            "TICKWORK_DATABASE": database,
            "TICKWORK_ROLES": "scheduler,worker",
        }
        self.plan_files: list[Path] = []
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start one more node."""
        plan_file = self._folder / f"node-{len(self.plan_files)}.plans"
        plan_file.touch()
        self.plan_files.append(plan_file)
        command = [sys.executable, "-m", MODULE, str(plan_file), *self._arguments]
        with plan_file.with_suffix(".log").open("wb") as log:
            node = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self.nodes.append(node)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill a node with SIGKILL."""
        node.kill()
        node.wait()
        self.nodes.remove(node)

    def freeze(self, node: subprocess.Popen[bytes]) -> None:
        """Stop a node in the middle of whatever it does."""
        node.send_signal(signal.SIGSTOP)

    def wake(self, node: subprocess.Popen[bytes]) -> None:
        """Let a frozen node continue."""
        node.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise an error if a node exited by itself."""
        exited: Sequence[int] = [node.pid for node in self.nodes if node.poll() is not None]
        if exited:
            logs = [file.with_suffix(".log").read_text() for file in self.plan_files]
            raise RuntimeError(f"nodes exited by themselves: {exited}\n" + "\n".join(logs))

    def close(self) -> None:
        """Stop all nodes."""
        for node in self.nodes:
            node.send_signal(signal.SIGCONT)
            node.terminate()
        for node in self.nodes:
            with suppress(subprocess.TimeoutExpired):
                node.wait(STOP_SECONDS_MAX)
            node.kill()
            node.wait()
