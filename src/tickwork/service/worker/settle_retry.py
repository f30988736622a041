"""Retries settlements while the store is unavailable, also when an answer got lost.

A call without an answer may have been carried out, or may still be. So it is repeated, and a
refusal of the repeated call is checked: a claim is taken from a node only together with its lease.
If the node's lease is still valid, an earlier call of ours has settled the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.model import SYSTEM, Claim, SettleResult
from tickwork.errors import StoreError, StoreUnavailable
from tickwork.service.loop import ReportError
from tickwork.store.cluster_contract import Nodes
from tickwork.store.ids import new_id

PAUSE_SECONDS_MIN = 0.1
"""Seconds to pause after the first error."""

PAUSE_SECONDS_MAX = 5.0
"""Maximum number of seconds to pause after repeated errors."""

UNAVAILABLE_TRIES_MAX = 8
"""Maximum number of attempts that fail although other writes succeed. After that, the settlement
itself is what the database cannot store."""

Attempt = Callable[[], Awaitable[SettleResult]]


class SettleAnswer(NamedTuple):
    """The store's final answer. `settled_before` are claims that an earlier call without an answer
    has settled; the result does not name them as refused."""

    result: SettleResult
    settled_before: frozenset[Claim] = frozenset()
    is_retried: bool = False


class CannotSettle(Exception):
    """A settlement cannot be stored. If `may_be_settled`, an earlier call may have stored it."""

    def __init__(self, error: Exception, *, may_be_settled: bool) -> None:
        super().__init__(str(error))
        self.error, self.may_be_settled = error, may_be_settled


class SettleRetry:
    """Repeats settlements while the database is unavailable. A lost claim is refused in the end."""

    def __init__(self, nodes: Nodes, report: ReportError) -> None:
        self._nodes, self._report = nodes, report

    async def settle(self, attempt: Attempt, *, may_be_settled: bool = False) -> SettleAnswer:
        """Repeats until there is an answer. `may_be_settled`: another settlement of the same
        message was attempted before."""
        pause, is_retried = PAUSE_SECONDS_MIN, False
        while True:
            try:
                result = await attempt()
            except StoreError as error:
                self._report("settle", error)
            else:
                return await self._answer(result, is_retried, may_be_settled or is_retried)
            is_retried, pause = True, await _back_off(pause)

    async def settle_special(self, attempt: Attempt) -> SettleAnswer:
        """The same for a settlement that stores more than endings. Raises `CannotSettle` if the
        settlement itself is what cannot be stored."""
        pause = PAUSE_SECONDS_MIN
        is_retried = False
        attempts = 0
        while True:
            try:
                result = await attempt()
            except StoreUnavailable as error:
                self._report("settle", error)
                if attempts >= UNAVAILABLE_TRIES_MAX:
                    raise CannotSettle(error, may_be_settled=True) from error
            except Exception as error:
                raise CannotSettle(error, may_be_settled=is_retried) from error
            else:
                return await self._answer(result, is_retried, is_retried)
            is_retried, pause = True, await _back_off(pause)
            attempts = attempts + 1 if await self._is_store_writable() else 0

    async def _answer(
        self, result: SettleResult, is_retried: bool, may_be_settled: bool
    ) -> SettleAnswer:
        if not result.refused or not may_be_settled:
            return SettleAnswer(result, is_retried=is_retried)
        live = await self._live_node_ids()
        before = frozenset(claim for claim in result.refused if claim.holder in live)
        refused = tuple(claim for claim in result.refused if claim not in before)
        return SettleAnswer(structs.replace(result, refused=refused), before, is_retried)

    async def _live_node_ids(self) -> set[UUID]:
        """The ids of all live nodes. A node that is live now was live when the call was refused."""
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return {node.id for node in await self._nodes.list(SYSTEM)}
            except StoreError as error:
                self._report("settle", error)
            pause = await _back_off(pause)

    async def _is_store_writable(self) -> bool:
        """Whether a write that changes nothing succeeds: releasing the claims of a new id."""
        try:
            await self._nodes.give_back_unknown(SYSTEM, new_id(), ())
        except StoreError:
            return False
        return True


async def _back_off(pause: float) -> float:
    """Pauses and returns the length of the next pause."""
    await asyncio.sleep(pause)
    return min(pause * 2, PAUSE_SECONDS_MAX)
