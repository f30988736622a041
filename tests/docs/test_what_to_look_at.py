"""An operator's bad night: systems are really broken, and the page leads to the cause."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.docs.terminals import Walk
from tests.kit.waiting import eventually_blocking
from tickwork import Tickwork

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("what-to-look-at", "leader-or-disk")
SMALL_DISK_KIBIBYTES = 2048

SHOP = """
from tickwork import Tickwork

app = Tickwork()
app.queue("orders")  # Nothing handles it, so its messages wait, however busy the machine is.
app.queue("emails")


@app.on("emails")
async def deliver(message):
    pass
"""

TICKING = """
from tickwork import Tickwork

app = Tickwork(min_interval_seconds=1)


@app.schedule(interval_seconds=1, name="tick")
async def tick(firing):
    pass
"""


def section(heading: str) -> str:
    """The text of the pages under a heading."""
    text = "\n".join((DOCS / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


class System:
    """A folder with an app, and a process that runs it."""

    def __init__(self, folder: Path, app: str, *, settings: str = "") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "shop.py").write_text(app)
        (folder / "tickwork.toml").write_text(settings)
        self.walk = Walk("docs/what-to-look-at.md", folder)
        self._file = folder / "tickwork.db"
        self._database = f"sqlite:///{self._file}"
        self._log = folder.parent / f"{folder.name}.log"
        with self._log.open("wb") as sink:
            self.process = subprocess.Popen(
                ["tickwork", "run", "shop:app", "--drain-seconds", "0"],  # noqa: S607
                cwd=folder,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=self.walk.environment,
            )

    def started(self) -> None:
        eventually_blocking(lambda: "Ctrl-C stops" in self._log.read_text(), what="the start")

    def follow(self, heading: str) -> None:
        self.walk.run(section(heading))

    async def send_orders(self) -> None:
        app = Tickwork(self._database)
        await app.queue("orders").send_batch([{"item": "tea"}] * 3)
        await app.close()

    async def publish_orders(self) -> None:
        """Publishes as many events as open the breaker of a target that is down, and one more."""
        app = Tickwork(self._database)
        for order in range(6):
            await app.events.publish("order.paid", {"order": order})
        await app.close()

    def lose_its_only_process(self) -> None:
        """Kills the process, and lets the time of its lease pass."""
        eventually_blocking(lambda: self.walk.output("tickwork nodes").endswith(" 64\n"))
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        with closing(sqlite3.connect(self._file)) as database, database:
            database.execute("UPDATE tickwork_nodes SET expires_at = started_at")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture
def dead_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, of two megabytes; the whole disk if none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={SMALL_DISK_KIBIBYTES}k"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder
    if is_mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607


def test_a_stalled_queue_a_dead_target_and_a_dead_leader_are_found(
    tmp_path: Path, dead_port: int
) -> None:
    allowed = '[server]\nallow_targets = ["127.0.0.1"]\n'
    ticking = System(tmp_path / "ticking", TICKING)
    shop = System(tmp_path / "shop", SHOP, settings=allowed)
    try:
        shop.started()
        asyncio.run(shop.send_orders())
        shop.follow("A queue stalls")
        address = f"http://127.0.0.1:{dead_port}/hook"
        shop.walk.output(f"tickwork endpoints create crm --url {address} --type 'order.*'")
        asyncio.run(shop.publish_orders())
        shop.follow("A target is down")
        ticking.started()
        ticking.lose_its_only_process()
        ticking.follow("A leader died")
    finally:
        for system in (ticking, shop):
            system.stop()


def test_a_full_disk_is_found(small_disk: Path) -> None:
    walk = Walk("docs/what-to-look-at.md", small_disk)
    (small_disk / "tickwork.toml").write_text('[[queues]]\nname = "orders"\n')
    assert "create  queue " in walk.output("tickwork migrate; tickwork topology apply")
    page = section("A disk is full")
    with closing(sqlite3.connect(small_disk / "tickwork.db")) as other:  # It keeps the log open.
        other.execute("SELECT count(*) FROM tickwork_messages").fetchone()
        fill_and_follow(walk, small_disk, page)


def fill_and_follow(walk: Walk, small_disk: Path, page: str) -> None:
    if os.path.ismount(small_disk):
        walk.output("cat /dev/zero > filler")
    else:  # No disk can be filled here; a limit on the size of files has the same effect.
        walk.prefix = "ulimit -f 1; "
        page = page.replace("database or disk is full", "…").split("$ tickwork doctor")[0] + "```\n"
    walk.run(page)
