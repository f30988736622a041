"""The state of the model: plain dicts of frozen values, and lookups in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.message.batch import BatchItem
from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import (
    DEFAULT,
    LEGAL,
    Message,
    Scope,
    State,
    StoredNode,
    StoredQueue,
    Tenant,
)
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.firing import FiringRecord
from tickwork.errors import NotFound
from tickwork.store.shared.watches import Watchers

Now = Callable[[], datetime]

Name = tuple[str, UUID]
"""A tenant and the id of something it owns."""

Tally = tuple[UUID, str, CounterName, str, str]
"""Queue, tenant, counter, type and source."""

_AN_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z]+_[0-9a-f]{32}")


class Row(Struct, frozen=True):
    """A message with fields that readers do not see."""

    message: Message
    place: int
    expires_at: datetime | None
    lease_until: datetime | None = None

    @property
    def name(self) -> Name:
        return self.message.tenant, self.message.id

    def order(self) -> tuple[int, datetime, UUID]:
        """Highest priority first, then oldest visible first."""
        return -self.message.priority, self.message.visible_at, self.message.id

    def changed(self, *, lease_until: datetime | None = None, **fields: object) -> Row:
        message = structs.replace(self.message, **fields)
        return structs.replace(self, message=message, lease_until=lease_until)

    def is_ready(self, now: datetime) -> bool:
        return self.message.state is State.READY and self.message.visible_at <= now

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class BatchRow(Struct, frozen=True, kw_only=True):
    """A batch as it is stored. `total` is set when it is sealed."""

    tenant: str
    id: UUID
    queue_id: UUID
    completion_queue: str | None
    created_at: datetime
    filled_at: datetime
    stored: int = 0
    total: int | None = None
    completed: int = 0
    failed: int = 0
    completed_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.completed + self.failed == self.total


class Tables:
    """A database."""

    def __init__(self) -> None:
        assert DEFAULT.tenant is not None
        self.tenants = {DEFAULT.tenant: Tenant(id=DEFAULT.tenant)}
        self.queues: dict[UUID, StoredQueue] = {}
        self.spent_until: dict[UUID, datetime] = {}
        self.subscriptions: list[Subscription] = []
        self.messages: dict[Name, Row] = {}
        self.letters: dict[UUID, StoredDeadLetter] = {}
        self.events_done: dict[tuple[str, UUID, str], datetime] = {}
        self.progress: dict[tuple[str, str, str], tuple[str, datetime]] = {}
        self.batches: dict[Name, BatchRow] = {}
        self.items: dict[tuple[str, UUID, UUID], BatchItem] = {}
        self.firings: list[FiringRecord] = []
        self.nodes: dict[UUID, StoredNode] = {}
        self.tallies: dict[tuple[datetime, Tally], int] = {}
        self.counted: Counter[Tally] = Counter()
        """Counters not stored yet, which a killed process loses."""
        self.callers_own: list[str] = []
        self.watchers = Watchers()
        self.places = count(1)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all of it, or restores everything."""
        before = {
            name: table.copy()
            for name, table in vars(self).items()
            if isinstance(table, dict | list)
        }
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def queue(self, scope: Scope, name: str) -> StoredQueue:
        """A queue by name: the tenant's own before a shared one."""
        found = self.find_queue(scope, name)
        if found is None:
            raise NotFound("queue", name)
        return found

    def find_queue(self, scope: Scope, name: str | None) -> StoredQueue | None:
        """The same, or None."""
        if scope.is_system or scope.tenant in self.tenants:
            for owner in (scope.tenant, None):
                for queue in self.queues.values():
                    if (queue.tenant, queue.name) == (owner, name):
                        return queue
        return None

    def rows(self, scope: Scope, queue: StoredQueue) -> list[Row]:
        """The messages of a queue that the scope sees."""
        return [
            row
            for row in self.messages.values()
            if row.message.queue_id == queue.id
            and (scope.is_system or row.message.tenant == scope.tenant)
        ]

    def open_letters(self, scope: Scope, queue: StoredQueue) -> list[StoredDeadLetter]:
        """The dead letters of a queue that the scope sees, oldest first."""
        return sorted(
            (
                letter
                for letter in self.letters.values()
                if letter.queue_id == queue.id
                and letter.resolution is None
                and (scope.is_system or letter.tenant == scope.tenant)
            ),
            key=letter_order,
        )

    def same_key(self, message: Message) -> list[Row]:
        """The waiting and claimed messages of the same key, in order."""
        if message.key is None:
            return []
        same = [row for row in self.messages.values() if _lock(row.message) == _lock(message)]
        return sorted(same, key=lambda row: row.place)

    def has(self, row: Row) -> bool:
        """Whether the message is stored already, by its id or as the message of its slot."""
        slot = _slot(row.message)
        return row.name in self.messages or (
            slot is not None
            and slot in {_slot(message.message) for message in self.messages.values()}
        )

    def put(self, row: Row) -> None:
        """The only place where a message's state changes."""
        before = self.messages.get(row.name)
        if before is not None and before.message.state is not row.message.state:
            assert row.message.state in LEGAL[before.message.state]
        self.messages[row.name] = row

    def tally(self, passing: CounterName, passed: Message | StoredDeadLetter) -> None:
        source = passed.source or ""
        kind = passed.type or "", "(id)" if _AN_ID.fullmatch(source) else source
        self.counted[passed.queue_id, passed.tenant, passing, *kind] += 1


def own_tenant(scope: Scope) -> str:
    """The tenant of a new thing: the system's belong to the default tenant."""
    tenant = scope.tenant or DEFAULT.tenant
    assert tenant is not None
    return tenant


def letter_order(letter: StoredDeadLetter) -> tuple[datetime, UUID]:
    return letter.failed_at, letter.id


def _lock(message: Message) -> tuple[object, ...]:
    return message.tenant, message.queue_id, message.key


def _slot(message: Message) -> tuple[object, ...] | None:
    if message.schedule_id is None:
        return None
    return message.tenant, message.schedule_id, message.slot, message.run
