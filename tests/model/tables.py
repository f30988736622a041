"""What the model remembers, and how a message moves in it: plain dicts and lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.model import (
    DEFAULT,
    DeadLetter,
    Ending,
    Message,
    Node,
    Queue,
    Scope,
    Tenant,
)
from tickwork.core.states import State
from tickwork.errors import NotFound
from tickwork.store.ids import new_id
from tickwork.store.watching import Watchers

Name = tuple[str, UUID]
"""A message's tenant and id."""


class Row(Struct, frozen=True):
    """A message, and what a reader of it is not told."""

    message: Message
    expires_at: datetime | None
    lease_until: datetime | None = None

    @property
    def name(self) -> Name:
        return self.message.tenant, self.message.id

    def order(self) -> tuple[int, datetime, UUID]:
        """Highest priority first, then oldest visible first."""
        return -self.message.priority, self.message.visible_at, self.message.id

    def changed(self, *, lease_until: datetime | None = None, **fields: object) -> Row:
        return Row(structs.replace(self.message, **fields), self.expires_at, lease_until)

    def is_ready(self, now: datetime) -> bool:
        return self.message.state is State.READY and self.message.visible_at <= now

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class Tables:
    """A database."""

    def __init__(self) -> None:
        assert DEFAULT.tenant is not None
        self.tenants = {DEFAULT.tenant: Tenant(id=DEFAULT.tenant)}
        self.queues: dict[UUID, Queue] = {}
        self.messages: dict[Name, Row] = {}
        self.dead: list[DeadLetter] = []
        self.events_done: set[tuple[str, UUID, str]] = set()
        self.nodes: dict[UUID, Node] = {}
        self.callers_own: list[str] = []
        self.watchers = Watchers()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it, or as if nothing had happened."""
        before = {
            name: table.copy()
            for name, table in vars(self).items()
            if isinstance(table, dict | list | set)
        }
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def queue(self, scope: Scope, name: str) -> Queue:
        """A queue by name: the tenant's own before a shared one."""
        if scope.is_system or scope.tenant in self.tenants:
            for owner in (scope.tenant, None):
                for queue in self.queues.values():
                    if (queue.tenant, queue.name) == (owner, name):
                        return queue
        raise NotFound("queue", name)

    def rows(self, scope: Scope, queue: Queue) -> list[Row]:
        """What the scope sees of a queue."""
        return [
            row
            for row in self.messages.values()
            if row.message.queue_id == queue.id
            and (scope.is_system or row.message.tenant == scope.tenant)
        ]

    def dead_letters(self, scope: Scope, queue: Queue) -> list[DeadLetter]:
        return [
            letter
            for letter in self.dead
            if letter.queue_id == queue.id and (scope.is_system or letter.tenant == scope.tenant)
        ]

    def has(self, row: Row) -> bool:
        """Whether the message is there already, by its id or as the message of its slot."""
        slot = _slot(row.message)
        return row.name in self.messages or (
            slot is not None and slot in {_slot(each.message) for each in self.messages.values()}
        )

    def put(self, row: Row) -> None:
        self.messages[row.name] = row

    def put_back(self, row: Row, ending: Ending, now: datetime) -> None:
        """Ready again after the ending's delay."""
        self.put(
            row.changed(
                state=State.READY,
                holder=None,
                attempts=row.message.attempts + ending.counts_attempt,
                visible_at=now + timedelta(seconds=ending.delay_seconds),
                last_error=ending.error or row.message.last_error,
            )
        )

    def bury(self, row: Row, ending: Ending, now: datetime) -> None:
        """A dead letter, and no message any more."""
        message = row.message
        copied = {
            name: getattr(message, name)
            for name in DeadLetter.__struct_fields__
            if hasattr(message, name)
        }
        copied |= {
            "id": new_id(),
            "message_id": message.id,
            "reason": ending.reason or "failed",
            "error": ending.error or message.last_error,
            "attempts": message.attempts + ending.counts_attempt,
            "failed_at": now,
        }
        self.dead.append(DeadLetter(**copied))
        del self.messages[row.name]


def _slot(message: Message) -> tuple[object, ...] | None:
    if message.schedule_id is None:
        return None
    return message.tenant, message.schedule_id, message.slot, message.run
