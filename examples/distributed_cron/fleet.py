"""The nodes: processes that are started, killed without a warning, frozen and woken."""

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
    """Nodes on one database. Each has a file for what it plans."""

    def __init__(
        self, database: str, folder: Path, *, lease_seconds: float, ahead_seconds: float
    ) -> None:
        self._folder, self.lease_seconds = folder, lease_seconds
        self._words = (str(lease_seconds), str(ahead_seconds))
        self._environment = os.environ | {
            "TICKWORK_DATABASE": database,
            "TICKWORK_ROLES": "scheduler,worker",
        }
        self.plans: list[Path] = []
        self.nodes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """One more."""
        plans = self._folder / f"node-{len(self.plans)}.plans"
        plans.touch()
        self.plans.append(plans)
        command = [sys.executable, "-m", MODULE, str(plans), *self._words]
        with plans.with_suffix(".log").open("wb") as log:  # What it tells is not for the table.
            node = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self.nodes.append(node)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """`kill -9`: it can say nothing to anybody."""
        node.kill()
        node.wait()
        self.nodes.remove(node)

    def freeze(self, node: subprocess.Popen[bytes]) -> None:
        """It stands still, in the middle of whatever it does."""
        node.send_signal(signal.SIGSTOP)

    def wake(self, node: subprocess.Popen[bytes]) -> None:
        """It goes on, and knows nothing of the time between."""
        node.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raises if a node ended by itself."""
        ended: Sequence[int] = [node.pid for node in self.nodes if node.poll() is not None]
        if ended:
            logs = [plans.with_suffix(".log").read_text() for plans in self.plans]
            raise RuntimeError(f"nodes ended by themselves: {ended}\n" + "\n".join(logs))

    def close(self) -> None:
        """Ends them all."""
        for node in self.nodes:
            node.send_signal(signal.SIGCONT)
            node.terminate()
        for node in self.nodes:
            with suppress(subprocess.TimeoutExpired):
                node.wait(STOP_SECONDS_MAX)
            node.kill()
            node.wait()
