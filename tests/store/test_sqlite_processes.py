"""Several processes on one file: every message is done once, and none waits for ever."""

from pathlib import Path

from tests.kit.process import Arm, Children
from tests.store.acts import WORK
from tickwork.core.model import DEFAULT, Counts
from tickwork.store.sqlite import SqliteStore

WORKING = "tests.store.programs.work"
PROCESSES = 3
SENT_BY_EACH = 200
START_SECONDS_MAX = 60.0


async def test_messages_sent_and_claimed_by_several_processes_are_done_once(
    store: SqliteStore, path: Path, children: Children
) -> None:
    total = PROCESSES * SENT_BY_EACH
    working = [
        children.spawn(WORKING, path, str(SENT_BY_EACH), str(total), arms=[Arm("ready", "pause")])
        for _ in range(PROCESSES)
    ]
    for child in working:
        await child.reached("ready", START_SECONDS_MAX)
    for child in working:
        child.release("ready")
    for child in working:
        await child.succeeded(START_SECONDS_MAX)
    lines = [line.split() for child in working for line in child.lines()]
    sent = [name for what, name in lines if what == "sent"]
    done = [name for what, name in lines if what == "done"]
    assert len(sent) == total
    assert sorted(done) == sorted(sent)
    assert await store.queues.counts(DEFAULT, WORK) == Counts()
