"""Settling with a store that may be away, or whose answer got lost.

A call without an answer may have been carried out, or may still be. So it is made again, and a
refusal of it is looked at twice: what a node holds is taken from it only together with its
lease. If nobody has ended that, it was an earlier call of ours that settled the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.model import SYSTEM, Claim, SettleResult
from tickwork.errors import StoreError, StoreUnavailable
from tickwork.store.contract import Nodes
from tickwork.store.ids import new_id

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0

OWN_FAULT_TRIES = 8
"""A settlement that fails so often, though the store does other work each time, is itself what
the database cannot do."""

Ask = Callable[[], Awaitable[SettleResult]]


class Answer(NamedTuple):
    """What the store said at last. `before` was settled by a call that had no answer; the result
    does not name it as refused."""

    result: SettleResult
    before: frozenset[Claim] = frozenset()
    is_repeated: bool = False


class Unstorable(Exception):
    """It cannot be settled as it is. If `is_doubtful`, an earlier call may have settled it."""

    def __init__(self, error: Exception, *, is_doubtful: bool) -> None:
        super().__init__(str(error))
        self.error, self.is_doubtful = error, is_doubtful


class Patience:
    """Asks again and again while the database is away: what is held is held, or is refused."""

    def __init__(self, nodes: Nodes, tell: Callable[[str, Exception], None]) -> None:
        self._nodes, self._tell = nodes, tell

    async def settle(self, ask: Ask, *, is_doubtful: bool = False) -> Answer:
        """Asks until there is an answer; `is_doubtful` if something like it was asked before."""
        pause, is_repeated = PAUSE_SECONDS_MIN, False
        while True:
            try:
                result = await ask()
            except StoreError as error:
                self._tell("settle", error)
            else:
                return await self._answer(result, is_repeated, is_doubtful or is_repeated)
            is_repeated, pause = True, await _rest(pause)

    async def settle_special(self, ask: Ask) -> Answer:
        """The same for what carries more than an end, and may itself be what cannot be stored:
        then `Unstorable`."""
        pause, is_repeated, tries = PAUSE_SECONDS_MIN, False, 0
        while True:
            try:
                result = await ask()
            except StoreUnavailable as error:
                self._tell("settle", error)
                if tries >= OWN_FAULT_TRIES:
                    raise Unstorable(error, is_doubtful=True) from error
            except Exception as error:
                raise Unstorable(error, is_doubtful=is_repeated) from error
            else:
                return await self._answer(result, is_repeated, is_repeated)
            is_repeated, pause = True, await _rest(pause)
            tries = tries + 1 if await self._does_other_work() else 0

    async def _answer(self, result: SettleResult, is_repeated: bool, is_doubtful: bool) -> Answer:
        if not result.refused or not is_doubtful:
            return Answer(result, is_repeated=is_repeated)
        there = await self._nodes_there()
        before = frozenset(held for held in result.refused if held.holder in there)
        refused = tuple(held for held in result.refused if held not in before)
        return Answer(structs.replace(result, refused=refused), before, is_repeated)

    async def _nodes_there(self) -> set[UUID]:
        """The nodes that nobody ended; asked after a refusal: who is there now was there then."""
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return {node.id for node in await self._nodes.list(SYSTEM)}
            except StoreError as error:
                self._tell("settle", error)
            pause = await _rest(pause)

    async def _does_other_work(self) -> bool:
        """Whether a write that changes nothing succeeds: nobody holds what it gives back."""
        try:
            await self._nodes.give_back_unknown(SYSTEM, new_id(), ())
        except StoreError:
            return False
        return True


async def _rest(pause: float) -> float:
    """Rests, and says for how long the next time."""
    await asyncio.sleep(pause)
    return min(pause * 2, PAUSE_SECONDS_MAX)
