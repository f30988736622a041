"""Commands as processes: exit codes, signals, and imported modules."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.kit.api import bearer
from tests.kit.process import Children

CLI = (sys.executable, "-m", "tickwork")
LATE = ("litestar", "uvicorn", "pydantic", "rich", "asyncio", "importlib.metadata", "email")


def test_bad_input_exits_with_2_and_no_traceback() -> None:
    ended = subprocess.run([*CLI, "next", "61 * * * *"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("tickwork: EXPR: the minute field '61'")
    assert len(ended.stderr.splitlines()) == 1


def test_invalid_utf8_arguments_are_bad_input() -> None:
    command = [os.fsencode(word) for word in CLI]
    ended = subprocess.run([*command, b"next", b"\xff * * * *"], capture_output=True)
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr


def test_a_closed_pipe_causes_no_traceback() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    command = [*CLI, "next", "@daily", "--limit", "1000"]
    ended = subprocess.run(command, stdout=writable, stderr=subprocess.PIPE, text=True)
    os.close(writable)
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_next_imports_nothing_slow() -> None:
    script = (
        "import sys; from tickwork.cli import app\n"
        "app(['next', '0 9 * * 1-5', '--timezone', 'Europe/Berlin'], standalone_mode=False)\n"
        "print('loaded:', *sorted(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = ended.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded:", ended.stderr
    assert [name for name in LATE if name in loaded] == []


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_the_server_shuts_down_cleanly_on_a_signal(
    children: Children, told: signal.Signals, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/served.db"  # Else it would make one in the checkout.
    server = children.spawn("tickwork", "up", "--port", "0", "--database", database)
    await server.line("listens on")
    os.kill(server.pid, told)
    await server.succeeded()
    assert server.stderr() == ""


async def test_a_port_in_use_is_one_line_and_a_failure(children: Children, tmp_path: Path) -> None:
    database = ("--database", f"sqlite:///{tmp_path}/new.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = children.spawn("tickwork", "up", "--port", str(port), *database)
        assert await server.wait() == 1
    assert server.lines() == []
    # It made no key that nobody has seen: the next start prints the first one.
    again = children.spawn("tickwork", "up", "--port", "0", *database)
    await again.line("  tw_admin_")
    again.terminate()
    await again.succeeded()
    assert server.stderr() == (
        f"tickwork: port {port} of 127.0.0.1 cannot be used (address already in use); "
        "choose another with --port\n"
    )


async def test_environment_and_options_configure_the_server(
    children: Children, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/served.db"
    busy = {
        "TICKWORK_PORT": "not a port",
        "TICKWORK_HOST": "127.0.0.2",
        "TICKWORK_DATABASE": database,
    }
    server = children.spawn("tickwork", "up", "--port", "0", env=busy)
    line = await server.line("listens on")
    assert "http://127.0.0.2:" in line
    server.terminate()
    await server.succeeded()


@pytest.mark.parametrize(
    ("words", "environ", "is_logged"),
    [
        ([], {}, False),
        ([], {"TICKWORK_LOG_LEVEL": "info"}, True),
        (["--log-level", "info"], {"TICKWORK_LOG_LEVEL": "error"}, True),
    ],
)
async def test_the_server_logs_from_the_level_that_is_set(
    children: Children, tmp_path: Path, words: list[str], environ: dict[str, str], is_logged: bool
) -> None:
    database = f"sqlite:///{tmp_path}/served.db"
    command = ("up", "--port", "0", "--database", database, "--log-format", "json", *words)
    server = children.spawn("tickwork", *command, env=environ)
    await server.line("listens on")
    server.terminate()
    await server.succeeded()
    levels = {json.loads(line)["level"] for line in server.stderr().splitlines()}
    assert levels == ({"info"} if is_logged else set())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--port", "http"], "--port: must be a whole number from 0 to 65535, not 'http'"),
        (["--database", "mysql://u:secret@h/d"], "--database: must be sqlite:///"),
        (["--roles", "king"], "--roles: must be one of api, scheduler, worker, http, not 'king'"),
        (["--roles", "worker"], "--roles: must include api"),
        (["--log-level", "loud"], "--log-level: must be one of debug, info, warning, error, not"),
    ],
)
def test_bad_settings_are_one_line(
    children: Children, words: list[str], says: str, tmp_path: Path
) -> None:
    ended = children.run("tickwork", "up", *words, env={}, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"tickwork: {says}")
    assert len(ended.stderr.splitlines()) == 1
    assert "secret" not in ended.stderr


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tickwork que", "queues"),
        ("tickwork queues se", "send"),
        ("tickwork queues send --dat", "--database"),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, completed: str) -> None:
    environ = os.environ | {
        "_TICKWORK_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    script = "import sys; sys.argv = ['tickwork']; from tickwork.cli import main; main()"
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, [f"plain,{completed}"], "")


async def test_the_operator_may_choose_the_first_key(children: Children, tmp_path: Path) -> None:
    chosen = "Chosen/first+key=with-40~characters_0123"
    environ = {"TICKWORK_ADMIN_KEY": chosen}
    words = ("up", "--port", "0", "--database", f"sqlite:///{tmp_path}/new.db")
    server = children.spawn("tickwork", *words, env=environ)
    url = (await server.line("listens on")).split()[-1]
    curl = await server.line("curl -H")
    assert curl.strip() == f'curl -H "Authorization: Bearer $TICKWORK_ADMIN_KEY" {url}/v1/stats'
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for key, status in ((chosen, 200), (chosen.replace("C", "c"), 401)):
            asked = await client.get("/v1/stats", headers=bearer(key))
            assert asked.status_code == status
        assert (await client.post("/v1/session", json={"key": chosen})).status_code == 201
    server.terminate()
    await server.succeeded()
    assert chosen not in "".join(server.lines()) + server.stderr()


@pytest.mark.parametrize(
    "key", ["too-short", "x" * 31, "with a space " * 4, "tw_admin_12", "a.b" * 20]
)
def test_a_first_key_that_can_be_guessed_is_refused(
    children: Children, key: str, tmp_path: Path
) -> None:
    environ = {"TICKWORK_ADMIN_KEY": key}
    ended = children.run("tickwork", "up", env=environ, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("tickwork: TICKWORK_ADMIN_KEY: must be 32 to 256 letters")
    assert key not in ended.stderr
