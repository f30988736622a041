"""The contract of a store for entities: their state and storage, and direct calls.

It continues `contract.py`, whose rules hold here too. A call changes an entity by the settlement of
its message (`EntityChange`). An entity is addressed by its id, `core.entity.call.entity_id`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol
from uuid import UUID

from tickwork.core.entity.call import Entered
from tickwork.core.entity.model import (
    CallResult,
    EntityHead,
    EntityRecord,
    StorageSelection,
    StorageValues,
)
from tickwork.core.model import NewMessage, Scope


class Entities(Protocol):
    """Entities of a tenant."""

    def enter(
        self,
        scope: Scope,
        queue: str,
        message: NewMessage,
        caller: UUID,
        *,
        result_key: str | None = None,
    ) -> Awaitable[Entered]:
        """Stores a direct call of a node: claimed if its key is free, else blocked behind it. A key
        whose first message is a send that waits for its retry is free: the call moves before it,
        and the send is blocked until the call has ended.

        The key of the message is the id of the entity. With a claimed call a store may return the
        head, as `head` does, if it reads it in the same transaction. A blocked call is claimed by
        the node, and by no other, in the transaction that frees its key, or that makes the send
        before it wait for its retry. It is deleted when the
        node is dead. `NodeExpired` if the node's lease has expired, `TooMany` if too many calls
        wait for the key.
        """

    async def count_waiting(self, scope: Scope, queue: str, key: str) -> int:
        """Returns the number of messages with a key, at most the limit of an entity. `NotFound` if
        the queue does not exist."""

    async def entered(self, scope: Scope, calls: Sequence[UUID]) -> dict[UUID, bool]:
        """Returns which of these direct calls are claimed by their node; those that do not exist
        are left out."""

    async def withdraw(self, scope: Scope, call: UUID) -> bool:
        """Deletes a blocked direct call; False if it is claimed or gone."""

    async def head(self, scope: Scope, entity: UUID, result_key: str | None = None) -> EntityHead:
        """Returns the state of an entity, and the result that is kept under an idempotency key."""

    async def result(self, scope: Scope, entity: UUID, key: str) -> CallResult | None:
        """Returns the result that is kept under an idempotency key."""

    async def values(self, scope: Scope, entity: UUID, names: Sequence[str]) -> StorageValues:
        """Returns the values of those keys that have one."""

    async def listed(
        self, scope: Scope, entity: UUID, selection: StorageSelection
    ) -> StorageValues:
        """Returns the selected values in the order of their keys."""

    async def list(
        self, scope: Scope, type_name: str, limit: int, *, prefix: str = "", after: str = ""
    ) -> tuple[EntityRecord, ...]:
        """Returns the entities of a type by key, after a given key."""

    async def count(self, scope: Scope, type_name: str, limit: int) -> int:
        """Returns the number of entities of a type, counted up to a limit."""
