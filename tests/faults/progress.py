"""The progress of batches, read by one statement and compared with the rows themselves."""

from collections import Counter
from typing import NamedTuple
from uuid import UUID

from tests.faults import tables
from tests.faults.tables import Look
from tickwork.core.message.batch import BATCH_COMPLETED, Batch, BatchStatus
from tickwork.core.model import DEFAULT, ClaimRequest, Ending, Fate, Settlement
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

BATCHES_MAX = 1_000
ONE_BY_ONE_MAX = 2
LONG_SECONDS = 600.0


class Progress(NamedTuple):
    """A batch at one moment: its counters, and its actual rows."""

    id: str
    stored: int
    total: int | None
    is_completed: bool
    completed: int
    failed: int
    completed_rows: int
    failed_rows: int
    living_rows: int

    def check(self) -> None:
        """The laws of every committed moment."""
        assert (self.completed, self.failed) == (self.completed_rows, self.failed_rows), self
        assert self.stored == self.living_rows + self.completed + self.failed, self
        assert self.total in (None, self.stored), self
        assert not self.is_completed or self.total == self.completed + self.failed, self


async def read_progress(look: Look, url: str) -> list[Progress]:
    """All batches at one moment."""
    rows = await look(_PROGRESS.format(*(_HERE if tables.is_sqlite(url) else _THERE)))
    return [Progress(tables.as_id(row[0]), *row[1:]) for row in rows]


class Progressing:
    """Reads batches through the store and from the tables; no counter ever goes back."""

    def __init__(self, store: Store, look: Look, url: str) -> None:
        self._store, self._look, self._url = store, look, url
        self._seen: dict[UUID, Batch] = {}

    async def look(self) -> None:
        for progress in await read_progress(self._look, self._url):
            progress.check()
        listed = await self._store.batches.list(DEFAULT, BATCHES_MAX)
        for batch in [
            *listed,
            *[await self._get(listed_batch) for listed_batch in listed[:ONE_BY_ONE_MAX]],
        ]:
            self._check(batch, self._seen.get(batch.id, batch))
            self._seen[batch.id] = batch

    async def _get(self, batch: Batch) -> Batch:
        return await self._store.batches.get(DEFAULT, batch.id)

    def _check(self, batch: Batch, before: Batch) -> None:
        parts = (batch.pending, batch.processing, batch.completed, batch.failed)
        assert sum(parts) == batch.total, batch
        assert min(parts) >= 0, batch
        ended = batch.completed + batch.failed
        assert batch.status is not BatchStatus.COMPLETED or ended == batch.total, batch
        for name in ("total", "completed", "failed"):
            assert getattr(batch, name) >= getattr(before, name), (before, batch)
        if before.completed_at is not None:
            assert batch == before, (before, batch)


class Completions:
    """Claims and acks completion events as they arrive: a second one would be a new message."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store, self._queue = store, queue
        self.events: list[bytes] = []
        self.batches: Counter[str] = Counter()

    async def look(self) -> None:
        request = ClaimRequest(
            queue=self._queue, holder=new_id(), limit=100, lease_seconds=LONG_SECONDS
        )
        found = await self._store.messages.claim(DEFAULT, request)
        for event in found:
            assert event.type == BATCH_COMPLETED
            assert event.source is not None
            self.batches[tables.as_id(event.source)] += 1
            self.events.append(event.body)
        if found:
            endings = tuple(Ending(claim=message.current_claim, fate=Fate.ACK) for message in found)
            assert not (await self._store.messages.settle(DEFAULT, Settlement(endings))).refused


_PROGRESS = """
SELECT b.id, b.stored, b.total, b.completed_at IS NOT NULL, {}, {},
    (SELECT count(*) FROM tickwork_batch_items AS i
        WHERE i.tenant = b.tenant AND i.batch_id = b.id AND i.status = 'completed'),
    (SELECT count(*) FROM tickwork_batch_items AS i
        WHERE i.tenant = b.tenant AND i.batch_id = b.id AND i.status = 'failed'),
    (SELECT count(*) FROM tickwork_messages AS m
        WHERE m.tenant = b.tenant AND m.batch_id = b.id)
FROM tickwork_batches AS b
"""
_HERE = ("b.completed", "b.failed")
_COUNTED = (
    "(SELECT coalesce(sum({}), 0) FROM tickwork_batch_counts AS c"
    " WHERE c.tenant = b.tenant AND c.batch_id = b.id)"
)
_THERE = (_COUNTED.format("completed"), _COUNTED.format("failed"))
