"""Joint commits on SQLite: settlements together with their callers' own writes."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import Sequence

from tickwork.core.limits import check_settlement
from tickwork.core.model import Ending, Scope, Settlement
from tickwork.errors import ClaimLost, EventDone
from tickwork.store.message_contract import Joined
from tickwork.store.shared.joint_commit import NOT_ITS_TO_END, Contained, Gathering, Joint
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.file import breaks_connection, primary_code
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.effects import EffectWriters
from tickwork.store.sqlite.messages.settle_statements import Endings


class JointSettler:
    """Carries out joint settlements, several in one transaction."""

    def __init__(self, database: Database, writers: EffectWriters) -> None:
        self._database, self._writers = database, writers
        self._gathering = Gathering(self._settle_together, flights_max=1)

    async def settle(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        _check_not_async(joined)
        check_settlement(settlement)
        ready = Endings(scope, settlement.endings, self._writers)
        joint = _Joint(ready, settlement.endings, joined)
        await self._gathering.settle(joint, lambda: self._settle_all([joint]))

    async def _settle_together(self, joints: Sequence[_Joint], _: asyncio.Event) -> None:
        await self._settle_all(joints)

    async def _settle_all(self, joints: Sequence[_Joint]) -> None:
        def work(transaction: Transaction) -> None:
            for joint in joints:
                joint.carry_out(transaction)

        try:
            # In a transaction of their own: their errors and their duration must not affect other
            # writes.
            await self._database.write(work, alone=True)
        except _JoinedFailed as failed:
            raise failed.error from None


class _Joint(Joint):
    """A joint settlement, prepared for writing."""

    def __init__(self, ready: Endings, endings: Sequence[Ending], joined: Joined) -> None:
        super().__init__(endings, joined)
        self._ready = ready

    def carry_out(self, transaction: Transaction) -> None:
        result = self._ready.carry_out(transaction)
        if result.refused:
            raise ClaimLost(claim.id for claim in result.refused)
        if result.duplicates:
            raise EventDone(claim.id for claim in result.duplicates)
        _call(self.joined, transaction)


class _JoinedFailed(Exception):
    """Wraps an error of the caller's statement to distinguish it from an error of our own."""

    def __init__(self, error: sqlite3.Error) -> None:
        self.error = error


def _check_not_async(joined: Joined) -> None:
    if inspect.iscoroutinefunction(joined) or inspect.iscoroutinefunction(
        getattr(joined, "__call__", None)  # noqa: B004  an object may be called asynchronously
    ):
        raise TypeError(
            "on SQLite the function of a joint commit must be a plain function, not async"
        )


def _call(joined: Joined, transaction: Transaction) -> None:
    """Calls the caller's function with the open transaction."""
    try:
        with Contained(), transaction.connection.without_transaction_control() as connection:
            returned = joined(connection)
    except sqlite3.Error as error:
        if breaks_connection(error):
            raise
        if primary_code(error) == sqlite3.SQLITE_AUTH:
            raise RuntimeError(NOT_ITS_TO_END) from error
        raise _JoinedFailed(error) from error
    if not transaction.connection.in_transaction:
        # A conflict rolled the transaction back and the caller caught it: later statements would
        # autocommit.
        raise RuntimeError(
            "the function of a joint commit rolled back the transaction; nothing was committed"
        )
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError("on SQLite the function of a joint commit must not return an awaitable")
