"""The settler: batches, errors that concern one message, and retries of a store that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from msgspec import structs

from tests.core.messages import claimed_message
from tickwork.app.invocation import Made, Rows, Written
from tickwork.clock import monotonic
from tickwork.core.model import (
    REASON_MAX_RETRIES,
    Claim,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Send,
    Settlement,
    SettleResult,
    StoredQueue,
)
from tickwork.errors import (
    BacklogFull,
    ClaimLost,
    EventDone,
    NotFound,
    StoreBroken,
    StoreUnavailable,
)
from tickwork.service.observe import Observer
from tickwork.service.observe.log_events import EventLog
from tickwork.service.worker import settle_retry
from tickwork.service.worker.settle import SETTLE_BATCH_MAX, FinishedMessage, Settler
from tickwork.service.worker.settle_retry import UNAVAILABLE_TRIES_MAX
from tickwork.store.contract import Store

QUEUE = StoredQueue(
    id=UUID(int=2), tenant="default", name="work", settings=QueueSettings(max_retries=0)
)


Fates = list[tuple[int, Fate, str | None]]


class Server:
    """Takes settlements; may raise instead, in turn."""

    def __init__(self) -> None:
        self.settled: list[Settlement] = []
        self.jointly: list[Settlement] = []
        self.raised: list[Exception] = []
        self.raised_jointly: list[Exception] = []
        self.refused: tuple[Claim, ...] = ()
        self.duplicates: tuple[Claim, ...] = ()
        self.raised_by_nodes: list[Exception] = []
        self.is_ended = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def settle(self, _: object, settlement: Settlement) -> SettleResult:
        await self.gate.wait()
        if self.raised:
            raise self.raised.pop(0)
        self.settled.append(settlement)
        held = {ending.claim for ending in settlement.endings}
        return SettleResult(
            tuple(claim for claim in self.refused if claim in held),
            tuple(duplicate for duplicate in self.duplicates if duplicate in held),
        )

    async def settle_jointly(
        self, _: object, settlement: Settlement, joined: Callable[[Any], Any]
    ) -> None:
        if self.raised_jointly:
            raise self.raised_jointly.pop(0)
        joined(SimpleNamespace(execute=lambda *_: None))
        self.jointly.append(settlement)

    async def list(self, _: object) -> list[Any]:
        if self.raised_by_nodes:
            raise self.raised_by_nodes.pop(0)
        return [] if self.is_ended else [SimpleNamespace(id=end(1).ending.claim.holder)]

    async def give_back_unknown(self, *_: object) -> int:
        if self.raised_by_nodes:
            raise self.raised_by_nodes.pop(0)
        return 0

    def fates(self) -> Fates:
        """What became of which message."""
        endings = [ending for settlement in self.settled for ending in settlement.endings]
        return sorted((ending.claim.id.int, ending.fate, ending.reason) for ending in endings)


class Notes(Observer):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.lost: list[Claim] = []
        self.errors: list[str] = []
        self.handled_ends: list[Fate] = []

    def messages_settled(
        self,
        queue: StoredQueue,  # noqa: ARG002
        finished: Sequence[FinishedMessage],
        result: SettleResult,
    ) -> None:
        self.handled_ends += [message.ending.fate for message in finished]
        self.lost += result.refused

    def error_occurred(self, activity: str, error: Exception) -> None:
        self.errors.append(f"{activity}: {error}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One that is tried again at once."""
    monkeypatch.setattr(settle_retry, "PAUSE_SECONDS_MIN", 0.001)
    monkeypatch.setattr(settle_retry, "PAUSE_SECONDS_MAX", 0.001)
    return Server()


@pytest.fixture
def notes() -> Notes:
    """What the settler says."""
    return Notes()


@pytest.fixture
def settler(server: Server, notes: Notes) -> Settler:
    """Settles there."""
    store: Any = SimpleNamespace(messages=server, nodes=server)
    return Settler(cast(Store, store), QUEUE, notes, lambda: None)


def end(number: int, *sends: Send, rows: Written | None = None) -> FinishedMessage:
    message = claimed_message(id=UUID(int=number))
    return FinishedMessage(
        message, Ending(claim=message.current_claim, fate=Fate.ACK, sends=sends), rows
    )


def send(body: bytes = b"1") -> Send:
    return Send("out", NewMessage(id=UUID(int=99), body=body))


def own_rows() -> Written:
    written = Written()
    Rows(written).run(lambda _: None)
    return written


async def test_ends_travel_together(server: Server, settler: Settler) -> None:
    server.gate.clear()
    for number in range(1, 1_101):
        settler.add(end(number))
    await asyncio.sleep(0)
    assert settler.unsettled == 1_100
    assert len(settler.unsettled_messages()) == 1_100
    server.gate.set()
    await settler.drain()
    assert [number for number, *_ in server.fates()] == [*range(1, 1_101)]
    assert len(server.settled) <= 1_100 // SETTLE_BATCH_MAX + 2
    assert (settler.unsettled, settler.unsettled_messages()) == (0, [])


async def test_a_database_that_is_away_is_waited_for(
    server: Server, settler: Settler, notes: Notes
) -> None:
    server.raised = [StoreUnavailable("away"), StoreBroken("odd"), StoreUnavailable("away")]
    settler.add(end(1))
    await settler.drain()
    assert server.fates() == [(1, Fate.ACK, None)]
    assert len(notes.errors) == 3


@pytest.mark.parametrize(
    "error", [BacklogFull("out", 7), NotFound("queue", "out"), StoreBroken("refused")]
)
async def test_a_send_that_is_refused_is_its_own_messages_failure(
    server: Server, settler: Settler, notes: Notes, error: Exception
) -> None:
    server.raised = [StoreUnavailable("away"), error]
    settler.add(end(1, send()))
    await settler.drain()
    assert server.fates() == [(1, Fate.DEAD, REASON_MAX_RETRIES)]
    assert notes.handled_ends == [Fate.DEAD]


async def test_rows_have_a_transaction_of_their_own(server: Server, settler: Settler) -> None:
    server.raised_jointly = [StoreUnavailable("away")]
    settler.add(end(1))
    settler.add(end(2, send(), rows=own_rows()))
    await settler.drain()
    assert server.fates() == [(1, Fate.ACK, None)]
    (jointly,) = server.jointly
    assert [(ending.claim.id.int, ending.sends) for ending in jointly.endings] == [(2, (send(),))]


@pytest.mark.parametrize(
    ("error", "fates"),
    [
        (ClaimLost(["x"]), []),
        (EventDone(["x"]), [(1, Fate.ACK, None)]),
        (ValueError("the caller's own"), [(1, Fate.DEAD, REASON_MAX_RETRIES)]),
        (StoreBroken("refused"), [(1, Fate.DEAD, REASON_MAX_RETRIES)]),
    ],
)
async def test_rows_that_cannot_be_written_end_their_message_as_they_should(
    server: Server,
    settler: Settler,
    notes: Notes,
    error: Exception,
    fates: Fates,
) -> None:
    server.raised_jointly = [error]
    settler.add(end(1, send(), rows=own_rows()))
    await settler.drain()
    assert server.fates() == fates
    assert all(not ending.sends for settled in server.settled for ending in settled.endings)
    assert len(notes.lost) == (1 if isinstance(error, ClaimLost) else 0)


async def test_what_came_too_late_is_told(server: Server, settler: Settler, notes: Notes) -> None:
    late = end(1)
    server.refused = (late.ending.claim,)
    settler.add(late)
    await settler.drain()
    assert notes.lost == [late.ending.claim]


def carriers(server: Server) -> list[int]:
    """The messages whose ends carried what was made as a whole, in order."""
    endings = [ending for settled in server.settled for ending in settled.endings]
    return [
        ending.claim.id.int
        for ending in endings
        if b"all" in [s.message.body for s in ending.sends]
    ]


ALL = Made((send(b"all"),))
"""What an invocation made as a whole."""


async def test_what_an_invocation_made_goes_with_the_first_that_is_done(
    server: Server, settler: Settler
) -> None:
    first, second, third = end(1), end(2, send(b"own")), end(3)
    retried = structs.replace(first, ending=Ending(claim=first.ending.claim, fate=Fate.RETRY))
    settler.add_invocation([retried, second, third], ALL)
    assert settler.unsettled == len(settler.unsettled_messages()) == 3
    await settler.drain()
    assert (settler.unsettled, carriers(server)) == (0, [3])
    assert server.fates() == [(1, Fate.RETRY, None), (2, Fate.ACK, None), (3, Fate.ACK, None)]
    (sent,) = server.settled[0].endings[0].sends
    assert (sent.message.causation_id, sent.message.hops) == (f"msg_{UUID(int=3).hex}", 1)


async def test_what_came_to_nothing_carries_nothing(server: Server, settler: Settler) -> None:
    """The next one carries it, until one counts; and nobody, if none does."""
    ends = [end(number) for number in range(1, 5)]
    held = [message.ending.claim for message in ends]
    server.refused, server.duplicates = (held[0],), (held[1],)
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert carriers(server) == [1, 2, 3]
    assert [number for number, *_ in server.fates()] == [1, 2, 3, 4]
    server.settled.clear()
    server.refused, server.duplicates = tuple(held), ()
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert carriers(server) == [1, 2, 3, 4]


async def test_an_ending_with_rows_carries_what_its_invocation_made(
    server: Server, settler: Settler
) -> None:
    server.raised_jointly = [EventDone(["x"]), ClaimLost(["x"]), ValueError("the caller's own")]
    settler.add_invocation([end(number, rows=own_rows()) for number in range(1, 6)], ALL)
    await settler.drain()
    assert [settled.endings[0].claim.id.int for settled in server.jointly] == [4, 5]
    assert [len(settled.endings[0].sends) for settled in server.jointly] == [1, 0]
    assert server.fates() == [(1, Fate.ACK, None), (3, Fate.DEAD, REASON_MAX_RETRIES)]


async def test_what_all_of_them_made_and_cannot_be_stored_fails_all(
    server: Server, settler: Settler
) -> None:
    ends = [end(number) for number in range(1, 4)]
    retried = structs.replace(ends[0], ending=Ending(claim=ends[0].ending.claim, fate=Fate.RETRY))
    server.raised = [BacklogFull("out", 7)]
    settler.add_invocation([retried, *ends[1:]], ALL)
    await settler.drain()
    dead = [(number, Fate.DEAD, REASON_MAX_RETRIES) for number in (2, 3)]
    assert (server.fates(), carriers(server)) == ([(1, Fate.RETRY, None), *dead], [])


async def test_a_refusal_after_a_lost_answer_is_a_success_of_a_node_that_lives(
    server: Server, settler: Settler, notes: Notes
) -> None:
    """So there is no next one to carry; also when it is hard to find out."""
    ends = [end(number) for number in range(1, 4)]
    server.raised = [StoreUnavailable("the answer got lost")]
    server.raised_by_nodes = [StoreUnavailable("away"), StoreUnavailable("away")]
    server.refused = (ends[0].ending.claim,)
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert (carriers(server), notes.lost) == ([1], [])
    assert notes.handled_ends == [Fate.ACK] * 3


async def test_rows_whose_answer_got_lost_are_written(
    server: Server, settler: Settler, notes: Notes
) -> None:
    server.raised_jointly = [StoreUnavailable("the answer got lost"), ClaimLost(["x"])]
    settler.add_invocation([end(number, rows=own_rows()) for number in (1, 2)], ALL)
    await settler.drain()
    assert [len(settled.endings[0].sends) for settled in server.jointly] == [0]
    assert (notes.handled_ends, notes.lost) == ([Fate.ACK, Fate.ACK], [])


async def test_a_refusal_is_believed_of_a_node_that_was_ended(
    server: Server, settler: Settler, notes: Notes
) -> None:
    """Then all that it held was given to others, and nobody is left to carry anything."""
    ends = [end(number) for number in range(1, 3)]
    server.raised, server.is_ended = [StoreUnavailable("the answer got lost")], True
    server.refused = tuple(message.ending.claim for message in ends)
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert notes.lost == [*server.refused]


async def test_what_fails_after_a_lost_answer_may_have_been_done(
    server: Server, settler: Settler, notes: Notes
) -> None:
    ends = [end(number) for number in range(1, 3)]
    server.raised = [StoreUnavailable("the answer got lost"), NotFound("queue", "out")]
    server.refused = (ends[0].ending.claim,)
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert server.fates() == [(1, Fate.DEAD, REASON_MAX_RETRIES), (2, Fate.ACK, None)]
    assert (carriers(server), notes.lost) == ([], [])
    assert notes.handled_ends == [Fate.ACK, Fate.ACK]


async def test_a_failure_whose_answer_got_lost_is_a_failure(
    server: Server, settler: Settler, notes: Notes
) -> None:
    """It was not done before, so the others fail with it."""
    ends = [end(number) for number in range(1, 3)]
    server.raised = [BacklogFull("out", 7), StoreUnavailable("the answer got lost")]
    server.refused = (ends[0].ending.claim,)
    settler.add_invocation(ends, ALL)
    await settler.drain()
    assert [fate for _, fate, _ in server.fates()] == [Fate.DEAD, Fate.DEAD]
    assert notes.handled_ends == [Fate.DEAD, Fate.DEAD]


async def test_what_the_database_cannot_do_fails_in_the_end(
    server: Server, settler: Settler, notes: Notes
) -> None:
    """If it does other work meanwhile; while it is away nothing is counted."""
    away = 3 * UNAVAILABLE_TRIES_MAX
    server.raised_by_nodes = [StoreUnavailable("away")] * away
    server.raised_jointly = [StoreUnavailable("killed")] * (away + UNAVAILABLE_TRIES_MAX + 1)
    settler.add(end(1, rows=own_rows()))
    await settler.drain()
    assert (server.raised_jointly, server.jointly) == ([], [])
    assert server.fates() == [(1, Fate.DEAD, REASON_MAX_RETRIES)]
    assert [ending.error for ending in server.settled[0].endings] == ["killed"]
    assert len(notes.errors) == away + UNAVAILABLE_TRIES_MAX + 1


async def test_who_drains_waits_for_so_long_only(server: Server, settler: Settler) -> None:
    server.gate.clear()
    settler.add(end(1))
    settler.add_invocation([end(2), end(3)], ALL)
    await settler.drain(monotonic() + 0.01)
    assert (settler.unsettled, server.settled) == (0, [])


async def test_a_long_chain_of_messages_is_logged_once_per_type(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    store: Any = SimpleNamespace(messages=server, nodes=server)
    settler = Settler(cast(Store, store), QUEUE, EventLog(), lambda: None)
    for hops, type_ in [(3, "near"), (4, "far"), (26, "far"), (25, None)]:
        message = claimed_message(id=UUID(int=1), hops=hops, type=type_)
        settler.add(FinishedMessage(message, Ending(claim=message.current_claim, fate=Fate.ACK)))
    await settler.drain()
    told = [record.getMessage() for record in caplog.records]
    assert [("type far has 4 hops" in line, "type None" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
