"""A shop that runs: a console, the processes of the app behind it, and a receiver of webhooks."""

from __future__ import annotations

import sqlite3
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.console.served import Served, make, served
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually_blocking

ON_LOOPBACK = "127.0.0.0/8"


class Receiver:
    """Answers webhooks with `status`, and keeps the bodies of those that it took."""

    def __init__(self) -> None:
        self.status = 204
        self.taken: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.status < 300:
                    receiver.taken.append(body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Shop:
    """The console and its database; `start` adds a process of the app."""

    def __init__(
        self, folder: Path, server: Served, receiver: Receiver, children: Children
    ) -> None:
        self.folder = folder
        self.server = server
        self.receiver = receiver
        self._children = children
        self._running: list[Child] = []

    def start(self, *, code: str = "old") -> Child:
        """Starts a process with all roles of the app, and waits until it works."""
        environ = {
            "TICKWORK_DATABASE": self.server.database,
            "TICKWORK_ALLOW_TARGETS": ON_LOOPBACK,
            "TICKWORK_SECRET_KEY": b64encode(bytes(32)).decode(),
            "SHOP_CODE": code,
            "SHOP_FOLDER": str(self.folder),
        }
        child = self._children.spawn(
            "tickwork", "run", "tests.console.running_app:app", "--roles", "scheduler,worker",
            "--drain-seconds", "2", env=environ,
        )  # fmt: skip
        self._running.append(child)
        eventually_blocking(self._is_led, timeout_seconds=60, what="a process that leads all")
        return child

    def stop(self, *, all_but: Child | None = None) -> None:
        """Ends the processes of the app, and waits until they are gone."""
        ended = [child for child in self._running if child is not all_but]
        for child in ended:
            child.terminate()
        eventually_blocking(
            lambda: all(child.returncode is not None for child in ended), what="their end"
        )
        self._running = [child for child in self._running if child is all_but]
        if self._running:
            eventually_blocking(self._is_led, timeout_seconds=60, what="a process that leads all")

    def freeze(self, child: Child) -> None:
        """Freezes a process while it does not write: others could not, either."""
        child.stop()
        while not self._is_writable():
            child.cont()
            child.stop()

    def _is_writable(self) -> bool:
        path = self.server.database.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0.5)) as file:
            try:
                file.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def kill(self, child: Child) -> None:
        """Ends a process without asking it."""
        child.kill9()
        self._running.remove(child)

    def deploy(self, code: str) -> None:
        """Runs this code of the app from now on."""
        self.stop()
        self.start(code=code)

    def is_well(self) -> bool:
        return bool(self.ask("GET", "/v1/health")["ok"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Asks the API, with a key of all scopes."""
        return make(self.server.http, method, path, body)

    def eventually(self, condition: Any, what: str) -> None:
        eventually_blocking(condition, timeout_seconds=60, what=what)

    def _is_led(self) -> bool:
        cluster = self.ask("GET", "/v1/cluster")
        alive = [node for node in cluster["nodes"] if node["is_alive"]]
        return bool(alive) and not cluster["shards_without_leader"]


@contextmanager
def running_shop(folder: Path) -> Iterator[Shop]:
    """A shop on a new file, without a process of its app."""
    receiver = Receiver()
    database = f"sqlite:///{folder}/shop.db"
    try:
        with (
            served(database, allow_targets=(ON_LOOPBACK,)) as server,
            Children(folder) as children,
        ):
            yield Shop(folder, server, receiver, children)
    finally:
        receiver.close()
