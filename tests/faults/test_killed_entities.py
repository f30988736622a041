"""Processes that are killed or frozen in the middle of an entity's call: nothing is lost, doubled
or half done, and the others go on."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faults.entity_history import History, faults_of
from tests.faults.open_store import opened
from tests.faults.programs.entities import PROGRAM
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tests.stores.sqlite_home import SqliteHome
from tickwork.core.entity.call import entity_id
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.entities import ensure_entity_type, new_call, send_call
from tickwork.store.contract import Store

SENDS = [f"send-{number}" for number in range(4)]
WAIT_SECONDS = 60.0
KILLS = [
    # A direct call that is not committed is gone; one that is committed stays.
    ("3", Arm("entering", "kill", after=1)),
    ("3", Arm("entered", "kill", after=1)),
    ("3", Arm("running", "kill", after=1)),
    ("3", Arm("settling", "kill", after=1)),
    ("3", Arm("settled", "kill", after=1)),
    # A send goes on elsewhere.
    ("", Arm("running", "kill", after=1)),
    ("", Arm("settling", "kill", after=1)),
    ("", Arm("settled", "kill", after=1)),
]
QUICK = (3,)


def answers(child: Child) -> list[tuple[str, int]]:
    told = [line.split() for line in child.lines() if line.count(" ") == 1]
    return [(name, int(at)) for name, at in told if at.isdigit()]


async def entries_of(store: Store, key: str = "a") -> tuple[list[str], dict[str, int]]:
    id_ = entity_id("Ledger", key)
    found = await store.entities.values(DEFAULT, id_, ["entries"])
    entries: list[str] = msgspec.json.decode(found.values.get("entries", b"[]"))
    names = [f"entry/{name}" for name in entries]
    stored = await store.entities.values(DEFAULT, id_, names)
    decoded = {name[6:]: msgspec.json.decode(value) for name, value in stored.values.items()}
    return entries, decoded


async def history_of(store: Store, callers: list[Child]) -> History:
    entries, stored = await entries_of(store)
    sent: list[Any] = [
        msgspec.json.decode(message.body)
        for message in await store.messages.peek(DEFAULT, "out", 1000)
    ]
    told = [answer for caller in callers for answer in answers(caller)]
    return History(entries, stored, [(name, at) for name, at in sent], told, SENDS)


async def prepare(store: Store) -> None:
    await ensure_entity_type(store, "Ledger")
    for name in SENDS:
        await send_call(Context(store, DEFAULT), new_call("Ledger", "a", "add", [name], {}))


async def has_all(store: Store) -> bool:
    return {*SENDS} <= {*(await entries_of(store))[0]}


@pytest.mark.parametrize(
    ("calls", "arm"),
    [
        pytest.param(*kill, marks=() if number in QUICK else pytest.mark.soak)
        for number, kill in enumerate(KILLS)
    ],
    ids=lambda name: name.point if isinstance(name, Arm) else "call" if name else "send",
)
async def test_a_killed_process_leaves_a_serial_history(
    home: Home, children: Children, calls: str, arm: Arm
) -> None:
    async with opened(home.url) as store:
        await prepare(store)
        if calls:
            children.spawn(PROGRAM, home.url, "worker")
        dying = children.spawn(PROGRAM, home.url, "dying", calls, arms=[arm])
        assert await dying.wait(WAIT_SECONDS) == -signal.SIGKILL, dying.stderr()
        if not calls:
            children.spawn(PROGRAM, home.url, "worker")
        caller = children.spawn(PROGRAM, home.url, "caller", "3")
        await caller.succeeded(WAIT_SECONDS)
        await eventually(lambda: has_all(store), timeout_seconds=WAIT_SECONDS, what="the sends")
        history = await history_of(store, [dying, caller])
        assert faults_of(history) == []
        assert len(answers(caller)) == 3


def stop_outside_a_write(home: Home, child: Child) -> None:
    """Freezes a process in a moment in which it has not locked the SQLite file: while it has,
    nobody can take anything over."""
    child.stop()
    while isinstance(home, SqliteHome) and not is_writable(home.path):
        child.cont()
        child.stop()


def is_writable(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


async def test_a_process_frozen_beyond_its_lease_changes_nothing_when_it_thaws(
    home: Home, children: Children
) -> None:
    async with opened(home.url) as store:
        await ensure_entity_type(store, "Ledger")
        children.spawn(PROGRAM, home.url, "worker")
        frozen = children.spawn(PROGRAM, home.url, "frozen", "2", arms=[Arm("running", "pause")])
        await frozen.reached("running", WAIT_SECONDS)
        stop_outside_a_write(home, frozen)
        caller = children.spawn(PROGRAM, home.url, "caller", "2")
        await caller.succeeded(WAIT_SECONDS)
        frozen.release("running")
        frozen.cont()
        await frozen.succeeded(WAIT_SECONDS)
        assert frozen.lines()[0] == "frozen-0 moved"
        history = await history_of(store, [frozen, caller])
        assert faults_of(history._replace(needed=[])) == []
        assert [*history.entries] == ["caller-0", "caller-1", "frozen-1"]


GOOD = History(
    entries=["a", "b", "c"],
    stored={"a": 1, "b": 2, "c": 3},
    sent=[("a", 1), ("b", 2), ("c", 3)],
    answers=[("b", 2)],
    needed=["c"],
)


def test_the_checker_finds_every_mutant() -> None:
    assert faults_of(GOOD) == []
    mutants = {
        "a call twice": GOOD._replace(entries=["a", "b", "c", "a"]),
        "a lost answer": GOOD._replace(answers=[("d", 4)]),
        "an answer of another state": GOOD._replace(answers=[("b", 1)]),
        "a lost send": GOOD._replace(needed=["d"]),
        "an effect twice": GOOD._replace(sent=[*GOOD.sent, ("c", 3)]),
        "an effect lost": GOOD._replace(sent=GOOD.sent[1:]),
        "an effect of a call that was rolled back": GOOD._replace(sent=[*GOOD.sent, ("d", 4)]),
        "half a write": GOOD._replace(stored={"a": 1, "b": 2}),
        "two calls at once": GOOD._replace(stored={"a": 1, "b": 1, "c": 2}),
    }
    assert [name for name, mutant in mutants.items() if not faults_of(mutant)] == []
