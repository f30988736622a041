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

UNAVAILABLE_TRIES_MAX = 8
"""A settlement that fails so often, though the store does other work each time, is itself what
the database cannot do."""

Ask = Callable[[], Awaitable[SettleResult]]


class SettleAnswer(NamedTuple):
    """What the store said at last. `before` was settled by a call that had no answer; the result
    does not name it as refused."""

    result: SettleResult
    before: frozenset[Claim] = frozenset()
    is_repeated: bool = False


class CannotSettle(Exception):
    """It cannot be settled as it is. If `may_be_settled`, an earlier call may have settled it."""

    def __init__(self, error: Exception, *, may_be_settled: bool) -> None:
        super().__init__(str(error))
        self.error, self.may_be_settled = error, may_be_settled


class SettleRetry:
    """Asks again and again while the database is away: what is held is held, or is refused."""

    def __init__(self, nodes: Nodes, tell: Callable[[str, Exception], None]) -> None:
        self._nodes, self._tell = nodes, tell

    async def settle(self, ask: Ask, *, may_be_settled: bool = False) -> SettleAnswer:
        """Asks until there is an answer; `may_be_settled` if something like it was asked before."""
        pause, is_repeated = PAUSE_SECONDS_MIN, False
        while True:
            try:
                result = await ask()
            except StoreError as error:
                self._tell("settle", error)
            else:
                return await self._answer(result, is_repeated, may_be_settled or is_repeated)
            is_repeated, pause = True, await _back_off(pause)

    async def settle_special(self, ask: Ask) -> SettleAnswer:
        """The same for what carries more than an end, and may itself be what cannot be stored:
        then `CannotSettle`."""
        pause, is_repeated, tries = PAUSE_SECONDS_MIN, False, 0
        while True:
            try:
                result = await ask()
            except StoreUnavailable as error:
                self._tell("settle", error)
                if tries >= UNAVAILABLE_TRIES_MAX:
                    raise CannotSettle(error, may_be_settled=True) from error
            except Exception as error:
                raise CannotSettle(error, may_be_settled=is_repeated) from error
            else:
                return await self._answer(result, is_repeated, is_repeated)
            is_repeated, pause = True, await _back_off(pause)
            tries = tries + 1 if await self._is_store_writable() else 0

    async def _answer(
        self, result: SettleResult, is_repeated: bool, may_be_settled: bool
    ) -> SettleAnswer:
        if not result.refused or not may_be_settled:
            return SettleAnswer(result, is_repeated=is_repeated)
        there = await self._live_node_ids()
        before = frozenset(held for held in result.refused if held.holder in there)
        refused = tuple(held for held in result.refused if held not in before)
        return SettleAnswer(structs.replace(result, refused=refused), before, is_repeated)

    async def _live_node_ids(self) -> set[UUID]:
        """The nodes that nobody ended; asked after a refusal: who is there now was there then."""
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return {node.id for node in await self._nodes.list(SYSTEM)}
            except StoreError as error:
                self._tell("settle", error)
            pause = await _back_off(pause)

    async def _is_store_writable(self) -> bool:
        """Whether a write that changes nothing succeeds: nobody holds what it gives back."""
        try:
            await self._nodes.give_back_unknown(SYSTEM, new_id(), ())
        except StoreError:
            return False
        return True


async def _back_off(pause: float) -> float:
    """Rests, and says for how long the next time."""
    await asyncio.sleep(pause)
    return min(pause * 2, PAUSE_SECONDS_MAX)
