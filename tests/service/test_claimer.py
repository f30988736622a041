"""When claim answers get lost, a node keeps no unknown claim and releases no known one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.core.messages import claimed_message
from tests.kit.waiting import eventually
from tickwork.core.model import DEFAULT, ClaimRequest, Message, Scope
from tickwork.errors import StoreUnavailable
from tickwork.service.worker.claim import Claimer
from tickwork.store.contract import Store

NODE = UUID(int=7)
REQUEST = ClaimRequest(queue="work", holder=NODE)


class Server:
    """A store whose answers are what a test says, and may wait until it says so."""

    def __init__(self) -> None:
        self.answers: list[tuple[Message, ...] | Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0
        self.given_back: list[list[UUID]] = []
        self.is_away = False

    async def claim(self, _: Scope, __: ClaimRequest) -> tuple[Message, ...]:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else ()
        await self.gate.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def give_back_unknown(self, _: Scope, node: UUID, known: Sequence[UUID]) -> int:
        assert node == NODE
        if self.is_away:
            raise StoreUnavailable("away")
        self.given_back.append(sorted(known))
        return 1


@pytest.fixture
def server() -> Server:
    """It answers at once, and with nothing."""
    return Server()


@pytest.fixture
def claims(server: Server) -> Claimer:
    """Two consumers have something in hand."""
    store: Any = SimpleNamespace(messages=server, nodes=server)
    made = Claimer(cast(Store, store))
    made.register(lambda: [message(1)])
    made.register(lambda: [message(2), message(3)])
    return made


def message(number: int) -> Message:
    return claimed_message(id=UUID(int=number))


async def test_an_answer_is_handed_on(server: Server, claims: Claimer) -> None:
    server.answers = [(message(9),)]
    assert await claims.claim(DEFAULT, REQUEST) == (message(9),)
    assert server.given_back == []


async def test_after_a_lost_answer_what_nobody_has_in_hand_is_given_back(
    server: Server, claims: Claimer
) -> None:
    server.answers = [StoreUnavailable("lost"), (message(9),)]
    with pytest.raises(StoreUnavailable):
        await claims.claim(DEFAULT, REQUEST)
    assert server.given_back == []
    assert await claims.claim(DEFAULT, REQUEST) == (message(9),)
    assert server.given_back == [[UUID(int=1), UUID(int=2), UUID(int=3)]]
    await claims.claim(DEFAULT, REQUEST)
    assert len(server.given_back) == 1


async def test_nothing_is_claimed_until_it_is_given_back(server: Server, claims: Claimer) -> None:
    server.answers = [StoreUnavailable("lost")]
    server.is_away = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await claims.claim(DEFAULT, REQUEST)
    assert server.asked == 1
    server.is_away = False
    assert await claims.claim(DEFAULT, REQUEST) == ()
    assert (server.asked, len(server.given_back)) == (2, 1)


async def test_an_answer_that_is_still_to_come_is_not_lost(server: Server, claims: Claimer) -> None:
    server.answers = [(message(9),), StoreUnavailable("lost")]
    server.gate.clear()
    in_hand: list[Message] = []
    claims.register(lambda: in_hand)

    async def slowly() -> None:
        in_hand.extend(await claims.claim(DEFAULT, REQUEST))

    slow = asyncio.create_task(slowly())
    lost = asyncio.create_task(claims.claim(DEFAULT, REQUEST))
    await eventually(lambda: server.asked == 2)
    claims._unanswered_holders.add(NODE)
    third = asyncio.create_task(claims.claim(DEFAULT, REQUEST))
    await asyncio.sleep(0)
    assert (server.asked, server.given_back) == (2, [])
    server.gate.set()
    await asyncio.wait([slow, lost, third])
    assert third.result() == ()
    assert isinstance(lost.exception(), StoreUnavailable)
    assert all(UUID(int=9) in known for known in server.given_back)
    assert server.asked == 3


async def test_a_claim_that_is_broken_off_may_have_handed_something_out(
    server: Server, claims: Claimer
) -> None:
    server.gate.clear()
    task = asyncio.create_task(claims.claim(DEFAULT, REQUEST))
    await eventually(lambda: server.asked == 1)
    task.cancel()
    await asyncio.wait([task])
    server.gate.set()
    await claims.claim(DEFAULT, REQUEST)
    assert len(server.given_back) == 1
