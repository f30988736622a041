"""A process that starts while its database is away waits for it, and says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.kit.process import Children
from tests.kit.proxy import TcpProxy
from tests.kit.waiting import eventually
from tickwork.errors import StoreUnavailable
from tickwork.service.process_lifecycle import listen
from tickwork.settings import Settings
from tickwork.wiring import migrate
from tickwork.wiring.server import wait_for_database

NOWHERE = ("127.0.0.1", 1)
"""An address at which nothing listens."""


async def test_a_process_waits_for_its_database_and_is_not_ready_meanwhile(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await migrate(Settings(database=postgres_url))
    real = urlsplit(postgres_url)
    assert real.hostname is not None
    assert real.port is not None
    async with TcpProxy(*NOWHERE) as proxy:
        away = postgres_url.replace(f":{real.port}/", f":{proxy.port}/")
        with listen("127.0.0.1", 0) as listener:
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            waiting = asyncio.create_task(wait_for_database(Settings(database=away), listener.dup))
            await eventually(lambda: "the database is away" in caplog.text, what="a log line")
            async with httpx.AsyncClient(base_url=base) as http:
                ready = await http.get("/readyz")
                assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
                assert (await http.get("/healthz")).status_code == 200
                assert (await http.post("/v1/events", json={})).status_code == 503
            assert not waiting.done()
            proxy.redirect(real.hostname, real.port)
            await eventually(waiting.done, what="the end of the wait")
            await waiting
    assert "the database is back" in caplog.text


async def test_a_wait_ends_after_its_seconds() -> None:
    away = Settings(database="postgresql://nobody@127.0.0.1:1/none", wait_seconds=0)
    with pytest.raises(StoreUnavailable):
        await wait_for_database(away)


APP = """
from tickwork import Tickwork

app = Tickwork("postgresql://nobody@127.0.0.1:1/none")
app.queue("work")

@app.on("work")
async def handle(message): ...
"""


@pytest.mark.parametrize(
    ("command", "status", "error"),
    [
        (["up"], 1, "address already in use"),
        (["up", "--roles", "worker"], 2, "must include api"),
        (["run", "shop:app", "--roles", "api,worker"], 2, "address already in use"),
        (["run", "broken:app"], 2, "importing broken failed: ZeroDivisionError"),
        (["run", "shop:other"], 2, "shop has no 'other'"),
        (["run", "shop:app", "--roles", "king"], 2, "--roles: must be one of"),
        (["run", "shop:app", "--prot", "1"], 2, "No such option '--prot'"),
        (["run"], 2, "MODULE:APP"),
        (["up", "--log-level", "loud"], 2, "--log-level: must be one of"),
        (["up", "more"], 2, "unexpected extra argument"),
    ],
)
def test_whatever_ends_a_start_with_a_json_log_is_json(
    children: Children, tmp_path: Path, command: list[str], status: int, error: str
) -> None:
    database = f"sqlite:///{tmp_path}/shop.db"
    (tmp_path / "shop.py").write_text(APP.replace("postgresql://nobody@127.0.0.1:1/none", database))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        options = ("--log-format", "json", "--port", port)
        environ = {"TICKWORK_DATABASE": database}
        ended = children.run("tickwork", *command, *options, env=environ, folder=tmp_path)
    assert ended.returncode == status
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert lines[-1]["event"] == "the process could not start"
    assert error in lines[-1]["error"]


@pytest.mark.parametrize("place", ["option", "variable", "file", "no place"])
def test_a_malformed_setting_is_written_as_the_log_is_asked_to_be(
    children: Children, tmp_path: Path, place: str
) -> None:
    if place == "file":
        (tmp_path / "tickwork.toml").write_text('[server]\nlog_format = "json"\n')
    asked = {"TICKWORK_LOG_FORMAT": "json"} if place == "variable" else {}
    wrong = {"TICKWORK_METRICS_PORT": "many", "TICKWORK_DRAIN_SECOND": "1"}
    options = ["--log-format=json"] * (place == "option")
    ended = children.run("tickwork", "up", *options, env=asked | wrong, folder=tmp_path)
    warning, error = ended.stderr.splitlines()
    assert ended.returncode == 2
    if place == "no place":
        assert warning.startswith("tickwork: warning: TICKWORK_DRAIN_SECOND is not a known")
        assert error.startswith("tickwork: TICKWORK_METRICS_PORT: must be")
    else:
        assert json.loads(warning)["level"] == "warning"
        assert json.loads(warning)["warning"].startswith("TICKWORK_DRAIN_SECOND is not a known")
        assert json.loads(error)["level"] == "error"
        assert json.loads(error)["error"].startswith("TICKWORK_METRICS_PORT: must be")


@pytest.mark.parametrize(
    ("command", "log_format"),
    [
        (["run", "shop:app"], "json"),
        (["up", "--port", "0"], "json"),
        (["run", "shop:app"], "console"),
    ],
)
def test_the_error_that_ends_a_start_is_written_as_the_log_is(
    children: Children, tmp_path: Path, command: list[str], log_format: str
) -> None:
    (tmp_path / "shop.py").write_text(APP)
    options = ("--log-format", log_format, "--wait-seconds", "0")
    environ = {"TICKWORK_DATABASE": "postgresql://nobody@127.0.0.1:1/none"}
    ended = children.run("tickwork", *command, *options, env=environ, folder=tmp_path)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    if log_format == "json":
        line = json.loads(last)
        assert (line["event"], line["level"]) == ("the process could not start", "error")
        assert "connection refused" in line["error"]
    else:
        assert last.startswith("tickwork: ")
    assert "Traceback" not in ended.stderr
