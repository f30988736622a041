"""Claims messages for one node, decides about late ones, and holds what consumers share.

A claim whose answer gets lost may have claimed messages that no consumer knows of. They would stay
with the node as long as it lives. So after such a claim, and before any other, all claims of the
node that no consumer knows are released. All consumers of a node claim through one `Claimer`: what
one of them does not know, another may have.

Workers that were down must not deliver a nine o'clock reminder at two. A claim marks messages that
are later than their grace period. The schedule's policy for missed slots then decides which of them
are handled, by the number of later slots that are due as well, whether those wait, are claimed or
are done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from tickwork.service.observe import ClockOffset, Observer
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import FinishedMessage, Settler
from tickwork.store.contract import Store
from tickwork.store.shared.archive import Archive

OwnedMessages = Callable[[], Iterable[Message]]
"""Returns the messages that a consumer has."""


class Claimer:
    """Claims messages for all consumers of a node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: list[OwnedMessages] = []
        self._unanswered_holders: set[UUID] = set()
        self._pending = 0
        self._claim_finished, self._recovery_lock = asyncio.Event(), asyncio.Lock()

    def register(self, owned: OwnedMessages) -> None:
        """Registers a consumer that will have claimed messages."""
        self._owners.append(owned)

    def unregister(self, owned: OwnedMessages) -> None:
        """Forgets a consumer that has no messages any more."""
        self._owners.remove(owned)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """Claims messages. The caller must own the answer before it awaits anything else."""
        while self._unanswered_holders:
            await self._release_unknown()
        self._pending += 1
        try:
            return await self._store.messages.claim(scope, request)
        except (StoreUnavailable, asyncio.CancelledError):
            self._unanswered_holders.add(request.holder)
            raise
        finally:
            self._pending -= 1
            self._claim_finished.set()

    async def _release_unknown(self) -> None:
        """Releases claims that no consumer knows. No claim starts meanwhile, and pending claims
        finish first, because their answers are not lost."""
        async with self._recovery_lock:
            while self._pending:
                self._claim_finished.clear()
                await self._claim_finished.wait()
            for holder in [*self._unanswered_holders]:
                known = [message.id for owned in self._owners for message in owned()]
                await self._store.nodes.give_back_unknown(SYSTEM, holder, known)
                self._unanswered_holders.discard(holder)


class LateMessages:
    """Late messages of a consumer. Each waits for a decision: it is handled like any other message,
    or settled without a handler."""

    def __init__(self, store: Store, prefetch: Prefetch, settler: Settler) -> None:
        self._store = store
        self._prefetch = prefetch
        self._settler = settler
        self.waiting: list[Message] = []
        self._deciding: set[Claim] = set()

    async def accept(self, found: Sequence[Message]) -> None:
        """Takes claimed messages. An extra run is never late. If the database is unavailable, late
        messages are released."""
        self.waiting += [message for message in found if _is_late(message)]
        self._prefetch.add([message for message in found if not _is_late(message)])
        if late := tuple(
            message for message in self.waiting if message.current_claim not in self._deciding
        ):
            await self._decide(late, found)

    def take_all(self) -> list[Message]:
        """Removes and returns all waiting messages."""
        waiting, self.waiting = self.waiting, []
        return waiting

    async def _decide(self, late: Sequence[Message], found: Sequence[Message]) -> None:
        claims = {message.current_claim for message in late}
        self._deciding |= claims
        try:
            too_late = await self._find_too_late(late, found)
        except StoreUnavailable:
            for message in self._take_waiting(claims):
                self._settler.add(
                    FinishedMessage(message, Ending(claim=message.current_claim, fate=Fate.RELEASE))
                )
            raise
        finally:
            self._deciding -= claims
        for message in self._take_waiting(claims):
            if message.current_claim in too_late:
                self._settler.add(FinishedMessage(message, missed_ending(message)))
            else:
                self._prefetch.add((message,))

    def _take_waiting(self, claims: AbstractSet[Claim]) -> list[Message]:
        """Removes and returns those that still wait; some may have been released meanwhile."""
        still = [message for message in self.waiting if message.current_claim in claims]
        self.waiting = [message for message in self.waiting if message.current_claim not in claims]
        return still

    async def _find_too_late(self, late: Sequence[Message], found: Sequence[Message]) -> set[Claim]:
        asked = [
            (message.tenant, message.schedule_id, message.slot)
            for message in late
            if message.schedule_id is not None and message.slot is not None
        ]
        stored = await self._store.schedules.newer_due(SYSTEM, asked)
        claimed = _later_in_claim(
            late, {message.id: message for message in (*found, *late)}.values()
        )
        return {
            message.current_claim
            for message, there, here in zip(late, stored, claimed, strict=True)
            # The store counts claimed slots too, unless they were skipped meanwhile.
            if is_too_late(
                message, LaterSlots(max(there.due, here.due), max(there.missed, here.missed))
            )
        }


def _is_late(message: Message) -> bool:
    return message.catch_up and message.is_late and message.run == 0


def _later_in_claim(late: Sequence[Message], claimed: Iterable[Message]) -> list[LaterSlots]:
    """For each late message, the later slots of its schedule among the claimed messages."""
    schedules = {(message.tenant, message.schedule_id) for message in late}
    theirs = [
        message
        for message in claimed
        if message.run == 0 and (message.tenant, message.schedule_id) in schedules
    ]
    found: dict[object, LaterSlots] = {}
    due: Counter[object] = Counter()
    missed: Counter[object] = Counter()
    for message in sorted(theirs, key=lambda one: (one.slot is not None, one.slot), reverse=True):
        schedule = (message.tenant, message.schedule_id)
        found[message.id] = LaterSlots(due[schedule], missed[schedule])
        due[schedule] += 1
        missed[schedule] += message.catch_up
    return [found[message.id] for message in late]


async def _declare_nothing() -> None:
    pass


class WorkerContext(NamedTuple):
    """What all consumers of a worker share. With `is_virtual` there is no jitter, and `monotonic`
    is a virtual clock. After `trusted_until` the claims may belong to another node.
    `declare_again` creates declared queues and schedules that are gone. Records past their
    retention are deleted after they were written to the `archive`, if there is one."""

    store: Store
    claimer: Claimer
    holder: Callable[[], UUID]
    compose: Composer
    isolator: Isolator
    observer: Observer
    clock_offset: ClockOffset
    is_virtual: bool = False
    monotonic: Callable[[], float] = monotonic
    trusted_until: Callable[[], float] = lambda: inf
    declare_again: Callable[[], Awaitable[None]] = _declare_nothing
    archive: Archive | None = None

    def is_trusted(self) -> bool:
        """Whether the claims are certainly still ours."""
        return self.monotonic() <= self.trusted_until()

    def is_ours(self, message: Message) -> bool:
        """Whether the claim of a message is certainly still ours."""
        return message.holder == self.holder() and self.is_trusted()
