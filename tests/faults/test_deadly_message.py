"""A message whose handler kills its process becomes a dead letter and harms no other message."""

import signal
from collections.abc import Sequence
from pathlib import Path

from tests.faults import tables
from tests.faults.open_store import opened
from tests.faults.programs.prefetcher import DEADLY
from tests.faults.reaper_loop import Reaping
from tests.faults.steps import QUEUE, new_message, put_queues, send
from tests.kit.history import Event, HistoryWriter, read_history
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, REASON_WORKER_LOST, Counts

PREFETCHER = "tests.faults.programs.prefetcher"
WORKERS = 2
NEIGHBOURS = 25
DEATHS_MAX = 10
BOUND_SECONDS = 120.0


class Supervised:
    """Worker processes, replaced when they are killed; they exit when all messages are done."""

    def __init__(self, children: Children, url: str, history: Path) -> None:
        self._children, self._arguments = children, (url, str(history))
        self._running: list[Child] = []
        self.deaths = 0

    def start(self) -> None:
        name = f"worker-{self.deaths}-{len(self._running)}"
        self._running.append(self._children.spawn(PREFETCHER, *self._arguments, name))

    def all_have_ended(self) -> bool:
        for child in [child for child in self._running if child.returncode is not None]:
            self._running.remove(child)
            if child.returncode == -signal.SIGKILL:
                self.deaths += 1
                assert self.deaths < DEATHS_MAX, "it kills without end"
                self.start()
            else:
                assert child.returncode == 0, child.stderr()
        return not self._running


async def test_a_message_that_kills_its_workers_is_dead_after_four_and_harms_no_other(
    home: Home, children: Children, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    deadly = new_message(DEADLY)
    async with opened(home.url) as store:
        await put_queues(store)
        await store.messages.send(DEFAULT, QUEUE, deadly)
        neighbours = await send(store, NEIGHBOURS)
        workers = Supervised(children, home.url, path)
        async with Reaping(store, HistoryWriter(path, "reaper")):
            for _ in range(WORKERS):
                workers.start()
            await eventually(workers.all_have_ended, timeout_seconds=BOUND_SECONDS)
        (letter,) = (await store.dead_letters.list(DEFAULT, QUEUE, Selection())).letters
        assert await store.queues.counts(DEFAULT, QUEUE) == Counts(dead=1)
    assert workers.deaths == LOST_CLAIMS_MAX
    assert (letter.message_id, letter.reason) == (deadly.id, REASON_WORKER_LOST)
    assert letter.attempts == 0
    history = read_history(path).events
    assert await tables.inputs_in(home.url, QUEUE) == []
    assert sorted(done(history)) == sorted(str(neighbour) for neighbour in neighbours)
    assert {event.number("attempts") for event in handled(history)} == {0}
    assert taken_alone(history, str(deadly.id))


def handled(history: Sequence[Event]) -> list[Event]:
    return [event for event in history if event.op == "handling"]


def done(history: Sequence[Event]) -> list[str]:
    settled = [event for event in history if (event.op, event.kind) == ("settle", "ok")]
    return [event.text("message") for event in settled]


def taken_alone(history: Sequence[Event], message: str) -> bool:
    """The last claim of a message had no other result."""
    claims = [event.facts["messages"] for event in history if event.op == "claimed"]
    return [claim for claim in claims if isinstance(claim, list) and message in claim][-1] == [
        message
    ]
