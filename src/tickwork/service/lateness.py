"""What was claimed too late: whether a handler may still see it.

Workers that were down must not deliver a nine o'clock reminder at two. A claim marks what it hands
out later than its grace; the schedule's policy for missed slots then says what of it counts, by how
many newer slots are due as well, whether they wait or somebody has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tickwork.core.model import SYSTEM, Message
from tickwork.core.slot_end import Newer, is_too_late, too_late
from tickwork.service.intake import Intake
from tickwork.service.settling import End, Settler
from tickwork.store.contract import Store


class Latecomers:
    """What a consumer claimed too late, in hand until it is judged: then it goes where everything
    else goes, or is settled unseen."""

    def __init__(self, store: Store, intake: Intake, settler: Settler) -> None:
        self._store, self._intake, self._settler = store, intake, settler
        self.waiting: list[Message] = []

    async def sift(self, found: Sequence[Message]) -> None:
        """Takes what was claimed. An extra run was asked for, and is never too late. If the
        database is away, what is late goes on waiting until more is claimed."""
        late = [each for each in found if _is_late(each)]
        self.waiting += late
        self._intake.add([each for each in found if not _is_late(each)] if late else found)
        if self.waiting:
            await self._judge(found)

    def give_up(self) -> list[Message]:
        """All that wait, for somebody else."""
        given, self.waiting = self.waiting, []
        return given

    async def _judge(self, found: Sequence[Message]) -> None:
        late = tuple(self.waiting)
        asked = [
            (each.tenant, each.schedule_id, each.slot)
            for each in late
            if each.schedule_id is not None and each.slot is not None
        ]
        newer = await self._store.schedules.newer_due(SYSTEM, asked)
        along = _newer_along(late, {each.id: each for each in (*found, *late)}.values())
        # Some may have been given up meanwhile, or judged; others may have come.
        still, judged = {each.id for each in self.waiting}, {each.id for each in late}
        self.waiting = [each for each in self.waiting if each.id not in judged]
        for message, there, beside in zip(late, newer, along, strict=True):
            if message.id not in still:
                continue
            # What was claimed along is counted there, too, unless it is done meanwhile.
            most = Newer(max(there.due, beside.due), max(there.missed, beside.missed))
            if is_too_late(message, most):
                self._settler.add(End(message, too_late(message)))
            else:
                self._intake.add((message,))


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
