"""Sends messages on SQLite, with copies for subscribers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from tickwork.core.limits import check_message
from tickwork.core.model import NewMessage, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.dead_copies import bury_copies
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages, copies_by_queue
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue

BULK_MESSAGES = 1_000


Sent = tuple[str, Sequence[NewMessage], bytes | None]
"""Stored messages, to be copied to subscribers: their tenant, themselves and the id of their queue;
None for events."""


class Parcel:
    """Messages for one queue, stored with their copies for subscribers together or not at all."""

    def __init__(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        self._scope = scope
        self._queue = queue
        self._prepared = PreparedMessages(messages)

    def find(self, transaction: Transaction) -> QueueRow:
        """The target queue; `NotFound` if it does not exist."""
        return find_queue(transaction, self._scope, self._queue)

    def store(self, transaction: Transaction) -> None:
        """Stores the messages that are not stored yet, and their copies; `NotFound` if the queue
        does not exist."""
        send_copies(transaction, *self.store_own(transaction))

    def store_own(self, transaction: Transaction) -> Sent:
        """Stores the messages that are not stored yet, without copies."""
        queue, tenant = self.find(transaction), own_tenant(self._scope)
        return tenant, self._prepared.store(transaction, tenant, queue), queue.id


class Sender:
    """Stores messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores messages, all or none."""
        if messages:
            await self._database.write(Parcel(scope, queue, messages).store, rows=len(messages))

    async def bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Stores any number of messages in chunks."""
        await self._database.read(lambda transaction: find_queue(transaction, scope, queue))
        source, stored = iter(messages), 0
        while piece := tuple(islice(source, BULK_MESSAGES)):
            for message in piece:
                check_message(message)
            await self._database.write(Parcel(scope, queue, piece).store, rows=len(piece))
            stored += len(piece)
        return stored


def send_copies(
    transaction: Transaction,
    tenant: str,
    messages: Sequence[NewMessage],
    except_queue_id: bytes | None = None,
) -> dict[bytes, bool]:
    """Copies messages to the queues that subscribe to them, except the one they are in; returns the
    ids of the queues, and whether all copies were new there. Copies that exceed the cap of their
    queue become dead letters there."""
    queues: dict[bytes, bool] = {}
    for queue, copies in copies_by_queue(
        transaction, tenant, messages, except_queue_id=except_queue_id
    ):
        stored = PreparedMessages(copies).store(transaction, tenant, queue, is_exempt=True)
        if queue.settings.backlog_bytes_max is not None:
            bury_copies(transaction, tenant, queue, stored)
        queues[queue.id] = len(stored) == len(copies)
    return queues
