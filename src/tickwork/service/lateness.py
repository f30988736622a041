"""What was claimed too late: whether a handler may still see it.

Workers that were down must not deliver a nine o'clock reminder at two. A claim marks what it hands
out later than its grace; the schedule's policy for missed slots then says what of it counts, by how
many newer slots are due as well, whether they wait, somebody has them, or they are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from tickwork.core.model import SYSTEM, Ending, Fate, Held, Message
from tickwork.core.schedule.slot_outcome import Newer, is_too_late, too_late
from tickwork.errors import StoreUnavailable
from tickwork.service.intake import Intake
from tickwork.service.settling import End, Settler
from tickwork.store.contract import Store


class Latecomers:
    """What a consumer claimed too late, in hand until it is judged: then it goes where everything
    else goes, or is settled unseen."""

    def __init__(self, store: Store, intake: Intake, settler: Settler) -> None:
        self._store, self._intake, self._settler = store, intake, settler
        self.waiting: list[Message] = []
        self._judged: set[Held] = set()

    async def sift(self, found: Sequence[Message]) -> None:
        """Takes what was claimed. An extra run was asked for, and is never too late. If the
        database is away, what is late is given back."""
        self.waiting += [each for each in found if _is_late(each)]
        self._intake.add([each for each in found if not _is_late(each)])
        if late := tuple(each for each in self.waiting if each.held not in self._judged):
            await self._judge(late, found)

    def give_up(self) -> list[Message]:
        """All that wait, for somebody else."""
        given, self.waiting = self.waiting, []
        return given

    async def _judge(self, late: Sequence[Message], found: Sequence[Message]) -> None:
        held = {each.held for each in late}
        self._judged |= held
        try:
            judged = await self._too_late(late, found)
        except StoreUnavailable:
            for message in self._still(held):
                self._settler.add(End(message, Ending(held=message.held, fate=Fate.RELEASE)))
            raise
        finally:
            self._judged -= held
        for message in self._still(held):
            if message.held in judged:
                self._settler.add(End(message, too_late(message)))
            else:
                self._intake.add((message,))

    def _still(self, held: AbstractSet[Held]) -> list[Message]:
        """Those that still wait: some may have been given up meanwhile. They wait no more."""
        still = [each for each in self.waiting if each.held in held]
        self.waiting = [each for each in self.waiting if each.held not in held]
        return still

    async def _too_late(self, late: Sequence[Message], found: Sequence[Message]) -> set[Held]:
        asked = [
            (each.tenant, each.schedule_id, each.slot)
            for each in late
            if each.schedule_id is not None and each.slot is not None
        ]
        newer = await self._store.schedules.newer_due(SYSTEM, asked)
        along = _newer_along(late, {each.id: each for each in (*found, *late)}.values())
        return {
            message.held
            for message, there, beside in zip(late, newer, along, strict=True)
            # What was claimed along is counted there, too, unless it was skipped meanwhile.
            if is_too_late(
                message, Newer(max(there.due, beside.due), max(there.missed, beside.missed))
            )
        }


def _is_late(message: Message) -> bool:
    return message.catch_up and message.is_late and message.run == 0


def _newer_along(late: Sequence[Message], along: Iterable[Message]) -> list[Newer]:
    """For each, the later slots of its schedule among these."""
    schedules = {(each.tenant, each.schedule_id) for each in late}
    theirs = [
        each for each in along if each.run == 0 and (each.tenant, each.schedule_id) in schedules
    ]
    found: dict[object, Newer] = {}
    passed: Counter[object] = Counter()
    missed: Counter[object] = Counter()
    for each in sorted(theirs, key=lambda one: (one.slot is not None, one.slot), reverse=True):
        schedule = (each.tenant, each.schedule_id)
        found[each.id] = Newer(passed[schedule], missed[schedule])
        passed[schedule] += 1
        missed[schedule] += each.catch_up
    return [found[each.id] for each in late]
