"""The tracer sees syncs, writes and sends, in order, in one process and its threads."""

from pathlib import Path

import asyncpg
import pytest

from tests.kit.postgres import PostgresServer
from tests.kit.process import Arm, Child, ChildFailed, Children
from tests.kit.trace import Trace, traced

PLAIN = """
import os, sys
from tests.kit.points import reach
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
reach("ready")
os.write(fd, b"data")
if sys.argv[2] != "none":
    getattr(os, sys.argv[2])(fd)
print("answered")
"""
IN_A_THREAD = """
import os, sys, threading
from tests.kit.points import reach
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
go = threading.Event()
def work():
    go.wait()
    os.write(fd, b"data")
    os.fsync(fd)
thread = threading.Thread(target=work)
thread.start()
reach("ready")
go.set()
thread.join()
second = threading.Thread(target=os.fdatasync, args=[fd])
second.start()
second.join()
print("answered")
"""
SQLITE = """
import sqlite3, sys
from tests.kit.points import reach
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute(f"PRAGMA synchronous = {sys.argv[2]}")
connection.execute("CREATE TABLE t (id INTEGER)")
reach("ready")
connection.execute("INSERT INTO t VALUES (1)")
print("answered")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


async def trace_of(children: Children, child: Child) -> Trace:
    """Traces a child from its point "ready", where it is paused, to its end."""
    await child.reached("ready")
    async with traced(children, child.pid) as trace:
        child.release("ready")
        await child.succeeded()
    return trace


def spawn(children: Children, script: Path, text: str, *arguments: str | Path) -> Child:
    script.write_text(text)
    return children.spawn(script, *arguments, arms=[Arm("ready", "pause")])


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
async def test_a_sync_between_write_and_response_is_seen(
    sync: str, children: Children, script: Path, file: Path
) -> None:
    trace = await trace_of(children, spawn(children, script, PLAIN, file, sync))
    (write,) = trace.calls_with("data")
    (answer,) = trace.calls_with("answered", name="write")
    (synced,) = trace.syncs_before(answer)
    assert (synced.name, synced.path) == (sync, str(file))
    assert write.path == str(file)
    assert answer.fd == 1
    assert write.entered < synced.entered < answer.entered
    assert trace.dirty_before(answer, path="file$") == []


async def test_a_missing_sync_is_reported(children: Children, script: Path, file: Path) -> None:
    trace = await trace_of(children, spawn(children, script, PLAIN, file, "none"))
    (write,) = trace.calls_with("data")
    (answer,) = trace.calls_with("answered")
    assert trace.syncs_before(answer) == []
    assert trace.dirty_before(answer, path="file$") == [write]


async def test_existing_and_new_threads_are_traced(
    children: Children, script: Path, file: Path
) -> None:
    child = spawn(children, script, IN_A_THREAD, file)
    trace = await trace_of(children, child)
    (answer,) = trace.calls_with("answered")
    syncs = trace.syncs_before(answer)
    assert [sync.name for sync in syncs] == ["fsync", "fdatasync"]
    assert len({child.pid, *(sync.thread for sync in syncs)}) == 3


@pytest.mark.parametrize(("synchronous", "is_durable"), [("FULL", True), ("NORMAL", False)])
async def test_sqlite_syncs_its_wal_before_a_commit_returns(
    synchronous: str, is_durable: bool, children: Children, script: Path, file: Path
) -> None:
    trace = await trace_of(children, spawn(children, script, SQLITE, file, synchronous))
    (answer,) = trace.calls_with("answered")
    assert bool(trace.syncs_before(answer, path=r"file-wal$")) == is_durable
    assert bool(trace.dirty_before(answer, path=r"file-wal$")) != is_durable


async def test_postgresql_syncs_its_wal_before_it_responds(
    children: Children, durable_postgres: PostgresServer
) -> None:
    connection = await asyncpg.connect(durable_postgres.url)
    await connection.execute("CREATE TABLE t (id int)")
    backend = connection.get_server_pid()
    async with traced(children, backend) as durable:
        await connection.execute("INSERT INTO t VALUES (1)")
    await connection.execute("SET synchronous_commit = off")
    async with traced(children, backend) as careless:
        await connection.execute("INSERT INTO t VALUES (2)")
    await connection.close()
    (answer,) = durable.calls_with("INSERT 0 1", name="sendto")
    assert durable.syncs_before(answer, path="/pg_wal/")
    assert durable.dirty_before(answer, path="/pg_wal/") == []
    (answer,) = careless.calls_with("INSERT 0 1", name="sendto")
    assert careless.syncs_before(answer) == []


async def test_a_traced_process_can_be_killed_frozen_and_waited_for(
    children: Children, script: Path, file: Path
) -> None:
    child = spawn(children, script, PLAIN, file, "fsync")
    await child.reached("ready")
    async with traced(children, child.pid):
        child.stop()
        child.cont()
        assert child.returncode is None
        child.kill9()
    assert child.returncode == -9


async def test_a_process_continues_after_it_was_traced(
    children: Children, script: Path, file: Path
) -> None:
    child = spawn(children, script, PLAIN, file, "fsync")
    await child.reached("ready")
    async with traced(children, child.pid) as trace:
        pass
    assert trace.calls == []
    child.release("ready")
    await child.succeeded()


async def test_tracing_a_missing_process_is_an_error(children: Children) -> None:
    with pytest.raises(ChildFailed, match="there is no process 4194305"):
        async with traced(children, 4_194_305):
            pass
