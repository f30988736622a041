"""`--watch` at a real terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.kit import Desk
from tests.kit.waiting import eventually_blocking
from tickwork.core.model import DEFAULT, QueueSettings

CLEAR = b"\x1b[H\x1b[2J"


def test_a_watched_command_shows_its_answer_again_until_ctrl_c(desk: Desk, tmp_path: Path) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "emails", QueueSettings()))
    terminal, inner = pty.openpty()
    words = ("queues", "stats", "emails", "--watch", "0.1", "--database", desk.url)
    watched = subprocess.Popen(
        [sys.executable, "-m", "tickwork", *words], stdout=inner, stderr=inner, cwd=tmp_path
    )
    os.close(inner)
    printed = bytearray()

    def has_shown_three_times() -> bool:
        printed.extend(os.read(terminal, 65536))
        assert watched.poll() is None, printed
        return printed.count(b"0 ready, 0 delayed") >= 3

    try:
        eventually_blocking(has_shown_three_times, timeout_seconds=30)
        assert printed.count(CLEAR) >= 3
        watched.send_signal(signal.SIGINT)
        assert watched.wait(30) == 0
    finally:
        watched.kill()
        watched.wait()
        os.close(terminal)


def test_a_watch_needs_a_sensible_number(desk: Desk) -> None:
    for given in ("0", "-1", "soon", "nan"):
        refused = desk.run("queues", "stats", "emails", "--watch", given)
        assert (refused.exit_code, "--watch: " in refused.stderr) == (2, True)
