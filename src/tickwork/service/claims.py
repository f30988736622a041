"""The claims of one node: what it holds is known, or given back.

A claim whose answer gets lost may have handed messages out that nobody here knows of; they would
stay with the node for as long as it lives. So after such a claim, before any other, everything
that the node holds and nobody here has in hand is given back. All consumers of a node claim this
way: what one of them does not know another may have in hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from tickwork.core.model import SYSTEM, ClaimRequest, Message, Scope
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store

InHand = Callable[[], Iterable[Message]]
"""What somebody has in hand."""


class Claims:
    """Claims for all consumers of a node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._in_hand: list[InHand] = []
        self._unsure: set[UUID] = set()
        self._under_way = 0
        self._one_less, self._finding_out = asyncio.Event(), asyncio.Lock()

    def add(self, in_hand: InHand) -> None:
        """Somebody who will have messages in hand."""
        self._in_hand.append(in_hand)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """As the store does. The answer must be in hand before anything else is awaited."""
        while self._unsure:
            await self._find_out()
        self._under_way += 1
        try:
            return await self._store.messages.claim(scope, request)
        except (StoreUnavailable, asyncio.CancelledError):
            self._unsure.add(request.holder)
            raise
        finally:
            self._under_way -= 1
            self._one_less.set()

    async def _find_out(self) -> None:
        """Gives back what is not known. No claim begins meanwhile, and those under way end
        first: an answer that is still to come is not lost."""
        async with self._finding_out:
            while self._under_way:
                self._one_less.clear()
                await self._one_less.wait()
            for holder in [*self._unsure]:
                known = [message.id for in_hand in self._in_hand for message in in_hand()]
                await self._store.nodes.give_back_unknown(SYSTEM, holder, known)
                self._unsure.discard(holder)
