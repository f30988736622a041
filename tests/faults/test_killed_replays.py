"""Dead letters replayed by two processes that are killed: each becomes one message, or none."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults import tables
from tests.faults.crew import START_SECONDS_MAX, Crew, Post
from tests.faults.open_store import opened
from tests.faults.programs import replayer
from tests.faults.steps import QUEUE, claim, join, put_queues
from tests.faults.tables import as_id
from tests.kit.history import Event
from tests.kit.process import ChildFailed, Children
from tests.kit.waiting import delay
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, Counts, Ending, Fate, NewMessage, Settlement
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

LETTERS, KILLS = 400, 2
LETTERS_OF_A_SOAK, KILLS_OF_A_SOAK = 20_000, 100
CALLS_PER_LIFE, LIFE_SECONDS_MAX = 20, 0.1
AT_A_POINT = 0.5
KEYS = 3
POST = Post(replayer.PROGRAM, replayer.Orders(queue=QUEUE), replayer.POINTS, "resolving")


async def leave_dead(store: Store, letters: int) -> None:
    """Creates dead letters, a few of them with the same key."""
    await put_queues(store)
    holder, left = await join(store), letters
    messages = [
        NewMessage(id=new_id(), body=b"1", key=f"key-{place % KEYS}" if place % 10 == 0 else None)
        for place in range(letters)
    ]
    await store.messages.send_bulk(DEFAULT, QUEUE, messages)
    while left:
        found = await claim(store, holder, limit=1_000)
        endings = tuple(
            Ending(claim=message.current_claim, fate=Fate.DEAD, error="it broke")
            for message in found
        )
        await store.messages.settle(DEFAULT, Settlement(endings))
        left -= len(found)
    assert await store.queues.counts(DEFAULT, QUEUE) == Counts(dead=letters)


async def replay_all(crew: Crew, kills: int) -> None:
    """Starts one process after the other until no dead letter is open."""
    for _ in range(kills):
        if crew.chance.random() < AT_A_POINT:
            child = crew.start(POST, crew.killing(POST, CALLS_PER_LIFE))
        else:
            child = crew.start(POST)
            with suppress(ChildFailed):  # it has nothing left to do
                await child.reached(POST.begun, START_SECONDS_MAX)
            await delay(crew.chance.uniform(0, LIFE_SECONDS_MAX))
            child.kill9()
        assert await child.wait(START_SECONDS_MAX) in (0, -signal.SIGKILL), child.stderr()
    await crew.start(POST).succeeded(START_SECONDS_MAX)


async def killed_amid_replays(
    home: Home, children: Children, folder: Path, *, letters: int, kills: int, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    async with opened(home.url) as store:
        await leave_dead(store, letters)
        await asyncio.gather(replay_all(crew, kills), replay_all(crew, kills))
        assert (await store.queues.counts(DEFAULT, QUEUE)).dead == 0
    found = [Resolved(*row) for row in await tables.fetch(home.url, LETTERS_RESOLVED)]
    replayed = [letter for letter in found if letter.resolution != "discarded"]
    assert len(found) == letters
    # One message for each replayed dead letter, which names its cause; no other.
    messages = await tables.fetch(home.url, MESSAGES)
    assert Counter((as_id(id_), as_id(cause)) for id_, cause in messages) == Counter(
        (as_id(letter.replayed_as), as_id(letter.message_id)) for letter in replayed
    )
    for letter in found:
        letter.check()
    check_answers(crew.read(), found)


class Resolved(NamedTuple):
    """A dead letter as the table has it."""

    id: Any
    message_id: Any
    resolution: str | None
    replayed_as: Any
    is_edited: bool

    def check(self) -> None:
        """It was resolved in one way, which shows what was done to it."""
        if self.resolution == "discarded":
            assert self.replayed_as is None, self
        else:
            assert self.resolution == ("fixed" if self.is_edited else "replayed"), self
            assert self.replayed_as is not None, self


def check_answers(history: Sequence[Event], found: Sequence[Resolved]) -> None:
    """Every reported result is true."""
    messages = {as_id(letter.id): letter.replayed_as for letter in found}
    discarded = sum(letter.resolution == "discarded" for letter in found)
    told = [event for event in history if event.kind == "ok"]
    for event in told:
        if event.op == "replay":
            assert as_id(messages[event.text("letter")]) == event.text("message")
    assert sum(event.number("letters") for event in told if event.op == "discard") <= discarded
    assert {event.op for event in told} == {"replay", "discard", "edit"}


LETTERS_RESOLVED = (
    "SELECT id, message_id, resolution, replayed_as, edited_at IS NOT NULL"
    " FROM tickwork_dead_letters"
)
MESSAGES = "SELECT id, causation_id FROM tickwork_messages"


async def test_a_dead_letter_becomes_one_message_or_none_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_amid_replays(home, children, tmp_path, letters=LETTERS, kills=KILLS, seed=1)


@pytest.mark.soak
async def test_a_hundred_killed_replays_lose_and_duplicate_nothing(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    letters, kills = LETTERS_OF_A_SOAK, KILLS_OF_A_SOAK
    await killed_amid_replays(home, children, tmp_path, letters=letters, kills=kills, seed=seed)
