"""The demo of `make run`: a whole node, observed from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from tests.kit.api import bearer, new_key_of
from tests.kit.waiting import eventually_blocking
from tickwork.settings import Settings

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_the_demo_handles_messages_and_fires_its_schedule(tmp_path: Path) -> None:
    port, database = free_port(), f"sqlite:///{tmp_path}/demo.db"
    environment = {
        **os.environ,
        "TICKWORK_DATABASE": database,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
    }

    def tickwork(*words: str) -> str:
        command = [sys.executable, "-m", "tickwork", *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
        ).stdout

    headers = bearer(new_key_of(Settings(database=database)))
    output = tmp_path / "output"
    command = [sys.executable, "-m", "tickwork", "run", "examples.demo.app:app"]
    with output.open("wb") as sink:
        node = subprocess.Popen(
            [*command, "--roles", "api,scheduler,worker", "--port", str(port)],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=tmp_path,
        )
    try:
        base = f"http://127.0.0.1:{port}"

        def is_leading_all_shards() -> bool:
            try:
                cluster = httpx.get(f"{base}/v1/cluster", headers=headers).json()
            except httpx.TransportError:
                return False
            nodes = [(member["roles"], len(member["shards"])) for member in cluster["nodes"]]
            return nodes == [(["api", "scheduler", "worker"], 64)]

        eventually_blocking(is_leading_all_shards)
        tickwork("queues", "send", "greetings", '{"name": "Ada"}')
        eventually_blocking(lambda: "hello, Ada!" in output.read_text())
        tickwork("schedules", "trigger", "tick")
        eventually_blocking(lambda: "tick: " in output.read_text())
        (listed,) = json.loads(tickwork("schedules", "list", "--json"))
        assert (listed["name"], listed["status"]) == ("tick", "active")
        assert "slot" in tickwork("why", "tick")
        queues = {
            stats["queue"]
            for stats in httpx.get(f"{base}/v1/stats", headers=headers).json()["queues"]
        }
        assert queues == {"greetings", "demo.functions"}
        assert "tickwork_shards_held 64.0" in httpx.get(f"{base}/metrics").text
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0, output.read_text()
