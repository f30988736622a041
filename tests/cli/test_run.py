"""`tickwork run`: errors in one line, and an app that runs until shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tickwork import __version__, wiring
from tickwork.cli import app
from tickwork.core.model import DEFAULT, Counts, QueueSettings
from tickwork.ops.context import Context
from tickwork.ops.send import compose, send

Write = Callable[[str], None]

DECLARED = """
    from tickwork import Tickwork

    app = Tickwork("sqlite:///tickwork.db")
    work = app.queue("work")
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the module `shop` in the test's own folder."""

    def write(text: str) -> None:
        (tmp_path / "shop.py").write_text(dedent(text))

    return write


def run(children: Children, folder: Path, *words: str) -> tuple[int, str]:
    """Returns the exit code and output of a run that exits by itself."""
    ended = children.run("tickwork", "run", *words, env={}, folder=folder)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def refused(folder: Path, *words: str) -> tuple[int, str]:
    """The same in this process, for a run that fails before it starts."""
    path, known = [*sys.path], {*sys.modules}
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, ["run", *words])
    sys.path[:] = path
    for name in {*sys.modules} - known:
        if name.partition(".")[0] == "shop":
            del sys.modules[name]
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("words", "fault"),
    [((), "is missing; "), *(((word,), "") for word in ("shop", "shop:", ":app", ""))],
)
def test_a_target_names_a_module_and_an_app(
    tmp_path: Path, write: Write, words: tuple[str, ...], fault: str
) -> None:
    write(DECLARED)
    says = f"tickwork: MODULE:APP: {fault}give a module and the app in it, such as shop:app\n"
    assert refused(tmp_path, *words) == (2, says)


@pytest.mark.parametrize("module", ["nowhere", "shop.emails", "nowhere.at.all"])
def test_a_missing_module_is_reported(tmp_path: Path, write: Write, module: str) -> None:
    write(DECLARED)
    says = f"tickwork: MODULE:APP: there is no module {module}\n"
    assert refused(tmp_path, f"{module}:app") == (2, says)


@pytest.mark.parametrize(
    ("module", "what", "line"),
    [
        ("import shopping_list", "ModuleNotFoundError: No module named 'shopping_list'", 1),
        ("\ndef app(:\n", "SyntaxError: invalid syntax (shop.py, line 2)", 2),
        ("x = 1\nx / 0", "ZeroDivisionError: division by zero", 2),
        ("import json\njson.loads('{')", "JSONDecodeError: ", 2),
        ("import sys\nsys.exit('no luck')", "SystemExit: no luck", 2),
        ("class Odd(Exception): pass\nraise Odd", "Odd", 2),
    ],
)
def test_a_module_that_raises_is_reported_with_file_and_line(
    tmp_path: Path, write: Write, module: str, what: str, line: int
) -> None:
    write(module)
    code, says = refused(tmp_path, "shop:app")
    assert code == 2
    assert says.startswith(f"tickwork: MODULE:APP: importing shop failed: {what}")
    assert says.endswith(f" (shop.py:{line}); --debug shows the traceback\n")


@pytest.mark.parametrize("asked", [["--debug"], []])
def test_debug_shows_the_traceback(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[str],
) -> None:
    if not asked:
        monkeypatch.setenv("TICKWORK_DEBUG", "1")
    write("def fail():\n    raise ValueError('no luck')\n\nfail()\n")
    code, says = run(children, tmp_path, "shop:app", *asked)
    assert code == 2
    assert says.startswith("Traceback (most recent call last):\n")
    assert "in fail" in says
    last = "tickwork: MODULE:APP: importing shop failed: ValueError: no luck (shop.py:2)"
    assert says.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "shop has no 'nothing'"),
        ("work", "'work' in shop is not a Tickwork app but a Queue"),
    ],
)
def test_a_missing_app_is_reported(tmp_path: Path, write: Write, name: str, says: str) -> None:
    write(DECLARED)
    assert refused(tmp_path, f"shop:{name}") == (2, f"tickwork: MODULE:APP: {says}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--roles", "boss"], "--roles: must be one of api, scheduler, worker, http, not 'boss'"),
        (["--log-format", "xml"], "--log-format: must be one of json, console, not 'xml'"),
        (
            ["--log-level", "loud"],
            "--log-level: must be one of debug, info, warning, error, not 'loud'",
        ),
        (
            ["--metrics-port", "many"],
            "--metrics-port: must be a whole number from 0 to 65535, not 'many'",
        ),
    ],
)
def test_options_are_checked_before_the_app_is_imported(
    tmp_path: Path, write: Write, words: list[str], says: str
) -> None:
    write("raise ValueError")
    assert refused(tmp_path, "shop:app", *words) == (2, f"tickwork: {says}\n")


def test_a_metrics_port_in_use_is_reported(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(f"{DECLARED}\n    @app.on('work')\n    async def handle(message): ...\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, says = run(children, tmp_path, "shop:app", "--metrics-port", str(port))
    assert code == 2
    assert says == (
        f"tickwork: --metrics-port: port {port} of 127.0.0.1 cannot be used "
        "(address already in use); choose another\n"
    )


def test_an_app_with_queues_and_without_handlers_has_nothing_to_run(
    tmp_path: Path, write: Write
) -> None:
    write(DECLARED)
    code, says = refused(tmp_path, "shop:app")
    assert code == 1
    assert says == (
        "tickwork: shop:app has no handlers; declare one with @app.on(…) or @app.consumer(…)\n"
    )
    assert not (tmp_path / "tickwork.db").exists()


def test_an_app_whose_queues_are_all_pushed_needs_no_handler(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(DECLARED.replace('app.queue("work")', 'app.queue("work", push_to="resizer")'))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, says = run(
            children, tmp_path, "shop:app", "--metrics-port", str(taken.getsockname()[1])
        )
    assert code == 2
    assert "cannot be used (address already in use)" in says  # It came as far as this.


@pytest.mark.parametrize(
    ("queue", "advice"),
    [("wrok", "did you mean 'work'?"), ("emails", "add app.queue('emails') before it")],
)
def test_the_error_for_an_undeclared_queue_says_what_to_do(
    tmp_path: Path, write: Write, queue: str, advice: str
) -> None:
    write(f"{DECLARED}\n    @app.on({queue!r})\n    async def handle(message): ...\n")
    code, says = refused(tmp_path, "shop:app")
    assert code == 2
    assert says == (f"tickwork: shop.handle: consumes {queue!r}, which is not declared; {advice}\n")
    assert not (tmp_path / "tickwork.db").exists()


@pytest.mark.parametrize(
    ("database", "code", "why"),
    [
        ("mysql://u:secret@h/d", 2, "must be sqlite:///"),
        ("sqlite:////nowhere/at/all.db", 1, "folder /nowhere/at does not exist"),
    ],
)
def test_an_unusable_database_is_reported(
    children: Children, tmp_path: Path, write: Write, database: str, code: int, why: str
) -> None:
    handler = "@app.on('work')\n    async def handle(message): ...\n"
    write(f"{DECLARED.replace('sqlite:///tickwork.db', database)}\n    {handler}")
    ended, says = run(children, tmp_path, "shop:app")
    assert ended == code
    assert why in says.splitlines()[-1]
    assert "secret" not in says
    assert "Traceback" not in says


RUNNING = """
    from tickwork import Tickwork

    app = Tickwork()
    work, out = app.queue("work"), app.queue("out")

    @app.on("work")
    async def handle(message):
        await out.send(message.body)
        print("handled", message.body, flush=True)

    @app.on("work", type="elsewhere", isolation="process")
    def handle_elsewhere(message):
        message.send("out", message.body)
        print("handled", message.body, flush=True)
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_an_app_handles_messages_until_shutdown(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    told: signal.Signals,
) -> None:
    write(RUNNING)
    monkeypatch.chdir(tmp_path)
    settings = wiring.Settings(database=f"sqlite:///{tmp_path}/own.db")
    store = await wiring.open_store(settings)
    await store.queues.put(DEFAULT, "work", QueueSettings())
    await send(Context(store, DEFAULT), "work", compose("here"))
    await send(Context(store, DEFAULT), "work", compose("there", type="elsewhere"))

    child = children.spawn(
        "tickwork", "run", "shop:app", env={"TICKWORK_DATABASE": settings.database}
    )
    await child.line("handled here")
    await child.line("handled there")
    assert child.returncode is None
    os.kill(child.pid, told)
    await child.succeeded()

    lines = [json.loads(line) for line in child.stderr().splitlines()]
    assert [line["event"] for line in lines] == [
        "handling",
        "stopping: running handlers finish, other messages are released",
    ]
    assert lines[0]["queues"] == ["work"]
    assert lines[0]["roles"] == ["scheduler", "worker"]
    assert await store.queues.counts(DEFAULT, "work") == Counts()
    sent = await store.messages.peek(DEFAULT, "out", 10)
    assert sorted(message.body for message in sent) == [b'"here"', b'"there"']
    await store.close()


SLOW = """
    import asyncio

    from tickwork import Tickwork

    app = Tickwork()
    app.queue("work")

    @app.on("work")
    async def handle(message):
        print("began", flush=True)
        await asyncio.Event().wait()
"""


@pytest.mark.parametrize("is_flag", [True, False])
async def test_the_drain_time_is_configurable(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    is_flag: bool,
) -> None:
    write(SLOW)
    monkeypatch.chdir(tmp_path)
    settings = wiring.Settings(database=f"sqlite:///{tmp_path}/own.db")
    store = await wiring.open_store(settings)
    await store.queues.put(DEFAULT, "work", QueueSettings())
    await send(Context(store, DEFAULT), "work", compose("x"))

    flags = ["--drain-seconds", "0"] if is_flag else []
    environ = {} if is_flag else {"TICKWORK_DRAIN_SECONDS": "0"}
    child = children.spawn(
        "tickwork",
        "run",
        "shop:app",
        *flags,
        env={"TICKWORK_DATABASE": settings.database, **environ},
    )
    await child.line("began")
    os.kill(child.pid, signal.SIGTERM)
    await child.succeeded()
    assert "may take" not in child.stderr()
    assert await store.queues.counts(DEFAULT, "work") == Counts(ready=1)
    await store.close()


LOGGING = """
    import logging

    import structlog

    from tickwork import Tickwork

    app = Tickwork("sqlite:///tickwork.db")
    work = app.queue("work")

    @app.on("work")
    async def handle(message):
        logging.getLogger("shop").warning(
            "plain %s", message.body, extra={"order": 17, "cents": [9.5], "attempt": "mine"}
        )
        structlog.get_logger("shop").info("structured", body=message.body)
        raise ValueError("no luck")
"""


async def sent(folder: Path) -> str:
    """Returns the id of a message that waits in `work`."""
    store = await wiring.open_store(wiring.Settings(database=f"sqlite:///{folder}/tickwork.db"))
    await store.queues.put(DEFAULT, "work", QueueSettings())
    message = compose("hello", correlation_id="c-1", type="greeting")
    await send(Context(store, DEFAULT), "work", message)
    await store.close()
    return f"msg_{message.id.hex}"


async def test_log_lines_are_json_and_a_handlers_lines_carry_its_context(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(LOGGING)
    monkeypatch.chdir(tmp_path)
    message_id = await sent(tmp_path)
    child = children.spawn("tickwork", "run", "shop:app", "--metrics-port", "0")

    def lines() -> dict[str, Any]:
        found = [json.loads(line) for line in child.stderr().splitlines(keepends=False)]
        return {line["event"]: line for line in found}

    await eventually(lambda: '"message retried"' in child.stderr())
    about = {"message_id": message_id, "correlation_id": "c-1", "attempt": 1, "type": "greeting"}
    plain, structured = lines()["plain hello"], lines()["structured"]
    extra = {"order": 17, "cents": [9.5], "extra_attempt": "mine"}
    assert plain.items() >= (about | extra | {"level": "warning", "logger": "shop"}).items()
    assert structured.items() >= (about | {"level": "info", "body": "hello"}).items()
    retried = lines()["message retried"]
    assert retried.items() >= (about | {"level": "warning", "queue": "work"}).items()
    assert retried["error"] == "ValueError: no luck"
    assert "Traceback" in retried["exception"]

    port = lines()["metrics are served"]["port"]
    async with httpx.AsyncClient(trust_env=False) as client:
        numbers = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    assert 'tickwork_messages_total{outcome="retried",queue="work"} 1.0' in numbers
    assert "process_resident_memory_bytes" in numbers
    child.terminate()
    await child.succeeded()


async def test_an_app_with_its_own_logging_is_left_alone(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "logging.basicConfig(level=logging.INFO, format='own %(name)s %(message)s')"
    write(LOGGING.replace("    app = Tick", f"    {own}\n    app = Tick"))
    monkeypatch.chdir(tmp_path)
    await sent(tmp_path)
    child = children.spawn("tickwork", "run", "shop:app")
    await eventually(lambda: "message retried" in child.stderr())
    assert "own shop plain hello\n" in child.stderr()
    assert "own tickwork message retried outcome=retried queue=work message_id=" in child.stderr()
    child.terminate()
    await child.succeeded()


def own_lines(child: Child) -> list[str]:
    """What the command itself says. A slow machine may log warnings about heartbeats in between."""
    return [line for line in child.stderr().splitlines() if line.startswith("tickwork: ")]


async def test_the_console_format_is_readable(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(LOGGING)
    monkeypatch.chdir(tmp_path)
    await sent(tmp_path)
    asked = {"TICKWORK_LOG_FORMAT": "console", "TICKWORK_LOG_LEVEL": "warning"}
    child = children.spawn("tickwork", "run", "shop:app", env=asked)
    await eventually(lambda: "ValueError: no luck\n" in child.stderr())
    child.terminate()
    await child.succeeded()
    lines = child.stderr().splitlines()
    database, doing, hint, *_, last = own_lines(child)
    assert database == f"tickwork: version {__version__}, database sqlite:///{tmp_path}/tickwork.db"
    assert doing == "tickwork: handling work; planning schedules; Ctrl-C stops"
    command = "python -m tickwork"
    assert hint == (
        f"tickwork: in another terminal: {command} queues list; {command} schedules list; "
        f"{command} nodes"
    )
    assert any("[warning  ] plain hello" in line and "order=17" in line for line in lines)
    assert any("message retried" in line and "queue=work" in line for line in lines)
    assert not any("structured" in line for line in lines)
    assert last == "tickwork: stopping: no handler is running"


IN_PROCESSES = """
    import logging

    from tickwork import Tickwork

    app = Tickwork(min_interval_seconds=1)
    app.queue("work")

    @app.on("work", isolation="process")
    def handle(message):
        logging.getLogger("shop").info("handled", extra={"order": 17})
        logging.getLogger("shop").debug("unwanted")

    @app.schedule(interval_seconds=1, isolation="process")
    async def tick(firing):
        logging.getLogger("shop").warning("ticked")
"""


async def test_a_handler_in_a_process_logs_as_its_worker_does(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(IN_PROCESSES)
    monkeypatch.chdir(tmp_path)
    message_id = await sent(tmp_path)
    child = children.spawn("tickwork", "run", "shop:app")
    for text in ('"handled"', '"ticked"'):
        await eventually(partial(contains, child, text))
    child.terminate()
    await child.succeeded()
    lines = [json.loads(line) for line in child.stderr().splitlines()]
    (handled,) = [line for line in lines if line["event"] == "handled"]
    assert (handled["level"], handled["order"]) == ("info", 17)
    assert (handled["message_id"], handled["correlation_id"]) == (message_id, "c-1")
    assert not [line for line in lines if line["event"] == "unwanted"]


def contains(child: Child, text: str) -> bool:
    return text in child.stderr()


TICKING = """
    from tickwork import Tickwork

    app = Tickwork("sqlite:///other.db", name="clock")

    @app.schedule(cron_expr="* * * * *")
    async def tick(firing): ...
"""


async def test_a_process_tells_the_next_tick_and_nothing_that_looks_like_an_error(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(TICKING)
    monkeypatch.chdir(tmp_path)
    asked = {"TICKWORK_LOG_FORMAT": "console", "TICKWORK_PORT": "0"}
    child = children.spawn("tickwork", "run", "shop:app", "--roles", "api,scheduler", env=asked)
    await eventually(lambda: "another terminal" in child.stderr())
    child.terminate()
    await child.succeeded()
    lines = own_lines(child)
    (tick,) = [line for line in lines if "next tick" in line]
    assert re.fullmatch(r"tickwork: next tick \d{4}-\d\d-\d\d \d\d:\d\d:00 \S+: tick", tick)
    assert any("queues list --app shop:app;" in line for line in lines)
    assert not any("error" in line for line in lines)


async def test_a_process_tells_what_runs_at_shutdown_and_what_the_next_signal_does(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(SLOW)
    monkeypatch.chdir(tmp_path)
    await sent(tmp_path)
    asked = {"TICKWORK_LOG_FORMAT": "console"}
    child = children.spawn("tickwork", "run", "shop:app", "--drain-seconds", "600", env=asked)
    await child.line("began")
    os.kill(child.pid, signal.SIGINT)
    await eventually(lambda: "600 seconds" in child.stderr())
    os.kill(child.pid, signal.SIGINT)
    await child.succeeded()
    first, second = [line for line in child.stderr().splitlines() if "stopping" in line]
    assert first == (
        "tickwork: stopping: 1 handler may take 600 seconds to finish; Ctrl-C again cancels and "
        "returns the messages"
    )
    assert second == (
        "tickwork: stopping now: 1 handler cancelled; the messages lose no attempt; Ctrl-C again "
        "ends the process at once"
    )


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ("worker", "handling work"),
        ("scheduler", "planning schedules"),
        ("api", "serving the API"),
        ("worker,api", "handling work; serving the API"),
    ],
)
async def test_a_process_announces_what_it_does(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    roles: str,
    says: str,
) -> None:
    write(RUNNING)
    monkeypatch.chdir(tmp_path)
    asked = {"TICKWORK_LOG_FORMAT": "console", "TICKWORK_PORT": "0"}
    asked["TICKWORK_DATABASE"] = f"sqlite:///{tmp_path}/own.db"
    child = children.spawn("tickwork", "run", "shop:app", "--roles", roles, env=asked)
    await eventually(lambda: "Ctrl-C stops" in child.stderr())
    child.terminate()
    await child.succeeded()
    assert f"tickwork: {says}; Ctrl-C stops" in child.stderr().splitlines()


@pytest.mark.parametrize(
    ("roles", "event", "queues"), [("scheduler", "running", []), ("worker", "handling", ["work"])]
)
async def test_a_log_line_announces_what_the_process_does(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    roles: str,
    event: str,
    queues: list[str],
) -> None:
    write(RUNNING)
    monkeypatch.chdir(tmp_path)
    asked = {"TICKWORK_DATABASE": f"sqlite:///{tmp_path}/own.db"}
    child = children.spawn("tickwork", "run", "shop:app", "--roles", roles, env=asked)
    await eventually(lambda: '"roles"' in child.stderr())
    child.terminate()
    await child.succeeded()
    first = json.loads(child.stderr().splitlines()[0])
    assert (first["event"], first["queues"], first["roles"]) == (event, queues, [roles])


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_the_first_start_of_an_app_with_the_api_prints_its_key_once(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    log_format: str,
) -> None:
    write(RUNNING)
    monkeypatch.chdir(tmp_path)
    asked = {"TICKWORK_DATABASE": f"sqlite:///{tmp_path}/own.db", "TICKWORK_LOG_FORMAT": log_format}
    words = ("run", "shop:app", "--roles", "api,worker", "--port", "0")
    first = children.spawn("tickwork", *words, env=asked)
    token = (await first.line("  tw_admin_")).strip()
    curl = (await first.line("curl -H")).split()
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(curl[-1], headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, token in " ".join(curl)) == (200, True)
    first.terminate()
    await first.succeeded()
    assert token not in first.stderr()
    second = children.spawn("tickwork", *words, env=asked)
    await eventually(lambda: "Ctrl-C stops" in second.stderr() or '"roles"' in second.stderr())
    second.terminate()
    await second.succeeded()
    assert not any("tw_" in line for line in second.lines())


ANSWERING = """
    import asyncio
    from tickwork import Tickwork

    app = Tickwork("sqlite:///other.db")

    @app.http("GET", "/hello/{name}", key=None)
    async def hello(request):
        print("began", flush=True)
        await asyncio.sleep(0.5)
        return {"hello": request.params["name"]}
"""


async def test_the_role_http_serves_handlers_and_a_stop_lets_requests_finish(
    children: Children, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ANSWERING)
    monkeypatch.chdir(tmp_path)
    command = ("run", "shop:app", "--roles", "http", "--http-port", "0")
    child = children.spawn("tickwork", *command, env={"TICKWORK_LOG_FORMAT": "json"})
    await eventually(lambda: "HTTP handlers are up at" in child.stderr())
    found = re.search(r"HTTP handlers are up at (http://[\d.:]+)", child.stderr())
    assert found is not None
    async with httpx.AsyncClient(trust_env=False, base_url=found[1]) as client:
        answer = asyncio.create_task(client.get("/hello/ada"))
        await child.line("began")
        child.terminate()
        assert (await answer).json() == {"hello": "ada"}
    await child.succeeded()
