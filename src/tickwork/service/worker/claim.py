"""The claims of one node: what it holds is known, or given back.

A claim whose answer gets lost may have handed messages out that nobody here knows of; they would
stay with the node for as long as it lives. So after such a claim, before any other, everything
that the node holds and nobody here has in hand is given back. All consumers of a node claim this
way: what one of them does not know another may have in hand.

What was claimed too late: whether a handler may still see it.

Workers that were down must not deliver a nine o'clock reminder at two. A claim marks what it hands
out later than its grace; the schedule's policy for missed slots then says what of it counts, by how
many newer slots are due as well, whether they wait, somebody has them, or they are done.

What all consumers of a worker share.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import NamedTuple
from uuid import UUID

from tickwork.app.message import Composer
from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, Claim, ClaimRequest, Ending, Fate, Message, Scope
from tickwork.core.schedule.slot_outcome import LaterSlots, is_too_late, missed_ending
from tickwork.errors import StoreUnavailable
from tickwork.service.isolation import Isolator
from tickwork.service.observe import Observer
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import FinishedMessage, Settler
from tickwork.store.contract import Store

OwnedMessages = Callable[[], Iterable[Message]]
"""What somebody has in hand."""


class Claimer:
    """Claims for all consumers of a node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._in_hand: list[OwnedMessages] = []
        self._unanswered_holders: set[UUID] = set()
        self._under_way = 0
        self._claim_finished, self._recovery_lock = asyncio.Event(), asyncio.Lock()

    def add(self, in_hand: OwnedMessages) -> None:
        """Somebody who will have messages in hand."""
        self._in_hand.append(in_hand)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """As the store does. The answer must be in hand before anything else is awaited."""
        while self._unanswered_holders:
            await self._release_unknown()
        self._under_way += 1
        try:
            return await self._store.messages.claim(scope, request)
        except (StoreUnavailable, asyncio.CancelledError):
            self._unanswered_holders.add(request.holder)
            raise
        finally:
            self._under_way -= 1
            self._claim_finished.set()

    async def _release_unknown(self) -> None:
        """Gives back what is not known. No claim begins meanwhile, and those under way end
        first: an answer that is still to come is not lost."""
        async with self._recovery_lock:
            while self._under_way:
                self._claim_finished.clear()
                await self._claim_finished.wait()
            for holder in [*self._unanswered_holders]:
                known = [message.id for in_hand in self._in_hand for message in in_hand()]
                await self._store.nodes.give_back_unknown(SYSTEM, holder, known)
                self._unanswered_holders.discard(holder)


class LateMessages:
    """What a consumer claimed too late, in hand until it is judged: then it goes where everything
    else goes, or is settled unseen."""

    def __init__(self, store: Store, intake: Prefetch, settler: Settler) -> None:
        self._store, self._prefetch, self._settler = store, intake, settler
        self.waiting: list[Message] = []
        self._judged: set[Claim] = set()

    async def accept(self, found: Sequence[Message]) -> None:
        """Takes what was claimed. An extra run was asked for, and is never too late. If the
        database is away, what is late is given back."""
        self.waiting += [each for each in found if _is_late(each)]
        self._prefetch.add([each for each in found if not _is_late(each)])
        if late := tuple(each for each in self.waiting if each.current_claim not in self._judged):
            await self._judge(late, found)

    def take_all(self) -> list[Message]:
        """All that wait, for somebody else."""
        given, self.waiting = self.waiting, []
        return given

    async def _judge(self, late: Sequence[Message], found: Sequence[Message]) -> None:
        held = {each.current_claim for each in late}
        self._judged |= held
        try:
            judged = await self._too_late(late, found)
        except StoreUnavailable:
            for message in self._take_waiting(held):
                self._settler.add(
                    FinishedMessage(message, Ending(claim=message.current_claim, fate=Fate.RELEASE))
                )
            raise
        finally:
            self._judged -= held
        for message in self._take_waiting(held):
            if message.current_claim in judged:
                self._settler.add(FinishedMessage(message, missed_ending(message)))
            else:
                self._prefetch.add((message,))

    def _take_waiting(self, held: AbstractSet[Claim]) -> list[Message]:
        """Those that still wait: some may have been given up meanwhile. They wait no more."""
        still = [each for each in self.waiting if each.current_claim in held]
        self.waiting = [each for each in self.waiting if each.current_claim not in held]
        return still

    async def _too_late(self, late: Sequence[Message], found: Sequence[Message]) -> set[Claim]:
        asked = [
            (each.tenant, each.schedule_id, each.slot)
            for each in late
            if each.schedule_id is not None and each.slot is not None
        ]
        newer = await self._store.schedules.newer_due(SYSTEM, asked)
        along = _newer_in_claim(late, {each.id: each for each in (*found, *late)}.values())
        return {
            message.current_claim
            for message, there, beside in zip(late, newer, along, strict=True)
            # What was claimed along is counted there, too, unless it was skipped meanwhile.
            if is_too_late(
                message, LaterSlots(max(there.due, beside.due), max(there.missed, beside.missed))
            )
        }


def _is_late(message: Message) -> bool:
    return message.catch_up and message.is_late and message.run == 0


def _newer_in_claim(late: Sequence[Message], along: Iterable[Message]) -> list[LaterSlots]:
    """For each, the later slots of its schedule among these."""
    schedules = {(each.tenant, each.schedule_id) for each in late}
    theirs = [
        each for each in along if each.run == 0 and (each.tenant, each.schedule_id) in schedules
    ]
    found: dict[object, LaterSlots] = {}
    passed: Counter[object] = Counter()
    missed: Counter[object] = Counter()
    for each in sorted(theirs, key=lambda one: (one.slot is not None, one.slot), reverse=True):
        schedule = (each.tenant, each.schedule_id)
        found[each.id] = LaterSlots(passed[schedule], missed[schedule])
        passed[schedule] += 1
        missed[schedule] += each.catch_up
    return [found[each.id] for each in late]


class WorkerContext(NamedTuple):
    """What all consumers of a worker share. With `is_virtual` every delay is exact, and time is
    what `monotonic` says. After `trusted_until` what was claimed may be somebody else's."""

    store: Store
    claims: Claimer
    holder: Callable[[], UUID]
    compose: Composer
    isolator: Isolator
    observer: Observer
    is_virtual: bool = False
    monotonic: Callable[[], float] = monotonic
    trusted_until: Callable[[], float] = lambda: inf

    def is_trusted(self) -> bool:
        """Whether what was claimed is certainly still ours."""
        return self.monotonic() <= self.trusted_until()
