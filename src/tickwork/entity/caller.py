"""Direct calls: the caller's process takes the entity, runs the method, and commits.

The message of a direct call is stored as claimed by the caller's node if the entity is free.
Otherwise it is blocked, and the transaction that frees the entity hands it to the node. If the
process dies, its node does, and the message is deleted: nobody waits for the result any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from tickwork.app.invocation import Handling, Made, current_handling, enter, leave
from tickwork.app.message import ClaimedMessage, Composer
from tickwork.clock import monotonic
from tickwork.core.entity.call import (
    ALARM_METHOD,
    CALL_WAIT_SECONDS_MAX,
    ENTITY_SETTINGS,
    Call,
    Entered,
    as_claimed,
    busy_text,
    call_message,
    queue_of,
)
from tickwork.core.message import decide
from tickwork.core.message.outcome import Succeeded
from tickwork.core.model import Claim, Ending, Fate, Message, Scope, Settlement, State
from tickwork.entity.call_wait import CallWait
from tickwork.entity.run import Returned, Runner, check_cycle
from tickwork.errors import (
    EntityBusy,
    EntityMoved,
    FieldError,
    InvalidInput,
    NodeExpired,
    StoreError,
)
from tickwork.ops.context import Context
from tickwork.ops.why import what_keeps
from tickwork.service.loop import ReportError
from tickwork.service.node import Node, OpenStore
from tickwork.service.worker.settle_retry import CannotSettle, SettleRetry
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

NODE_PAUSE_SECONDS = 0.1
"""Seconds until a call is tried again whose node has lost its lease and joins anew."""

LATE_SECONDS_MAX = 150.0
"""Seconds for which a call is looked for whose storing failed. A server that has lost the
connection carries its statement out all the same, when it has got its locks."""

LOOK_SECONDS_MAX = 5.0
"""Maximum number of seconds between two of these looks."""

CLOSE_SECONDS_MAX = 5.0
"""Seconds that calls which did not commit may take to end when the app closes."""

CALLER_ROLE = "caller"
"""The role of a node that makes direct calls of entities."""

Run = Callable[[Entered], Awaitable[Returned]]
"""Runs something under the claim of a direct call."""


class Caller:
    """Makes direct calls on one store, as one node."""

    def __init__(
        self,
        store: Store,
        holder: Callable[[], Awaitable[UUID]],
        compose: Composer,
        report: ReportError,
        *,
        on_blocked: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._holder = holder
        self._compose = compose
        self._retry = SettleRetry(store.nodes, report)
        self._wait, self._on_blocked = CallWait(store), on_blocked
        self._ending: set[asyncio.Task[Any]] = set()
        self._looking: set[asyncio.Task[Any]] = set()

    async def call(self, scope: Scope, runner: Runner, call: Call) -> bytes:
        """Calls a method and returns its result as JSON, after it was committed."""
        runner.check(call)
        if runner.type.is_read(call.method):
            value = await runner.read(scope, call)
            if value is not None:
                return value
        check_cycle(scope, call)
        return await self.take(
            scope,
            call,
            lambda entered: runner.run(
                scope, call, entered.message.id, head=entered.head, is_checked=True
            ),
        )

    async def take(self, scope: Scope, call: Call, run: Run) -> bytes:
        """Takes the entity of a call, runs something, and commits what it returns."""
        entered = await self._enter(scope, call)
        if entered.message.state is State.BLOCKED:
            entered = Entered(await self._wait_for(scope, call, entered.message))
        return await self._run(call, entered, run)

    async def close(self) -> None:
        """Waits for calls that were cancelled to end. If the database does not answer in time, the
        reaper deletes them together with the node of this process."""
        for task in self._looking:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                while self._ending:
                    await asyncio.wait(self._ending)
        for task in self._ending:
            task.cancel()

    # Taking the entity

    async def _enter(self, scope: Scope, call: Call) -> Entered:
        cause = _cause()
        method = call.method if call.alarm is None else ALARM_METHOD
        named = Call(entity=call.entity, key=call.key, method=method)
        message = call_message(named, new_id())
        if cause is not None:
            message = decide.caused_by(cause, message)
        until = monotonic() + CALL_WAIT_SECONDS_MAX
        while True:
            holder = await self._holder()
            entering = asyncio.ensure_future(
                self._store.entities.enter(
                    scope,
                    queue_of(call.entity),
                    message,
                    holder,
                    result_key=call.idempotency_key,
                )
            )
            try:
                return await asyncio.shield(entering)
            except NodeExpired:
                if monotonic() > until:
                    raise
                await asyncio.sleep(NODE_PAUSE_SECONDS)
            except (StoreError, asyncio.CancelledError):
                # It may be stored, and would keep the entity as long as this process lives.
                self._end_soon(self._remove_entered(scope, message.id, holder, entering))
                raise

    async def _wait_for(self, scope: Scope, call: Call, message: Message) -> Message:
        """Waits until a blocked call has its entity."""
        holder, id_ = await self._holder(), message.id
        has_answer, keeper = False, ""
        try:
            if self._on_blocked is not None and current_handling() is None:
                await self._on_blocked()
            is_claimed = await self._wait.claimed(scope, holder, id_, CALL_WAIT_SECONDS_MAX)
            if is_claimed is None:
                keeper = await what_keeps(Context(self._store, scope), call.entity, call.key, id_)
            if is_claimed is None and not await self._store.entities.withdraw(scope, id_):
                found = await self._store.entities.entered(scope, [id_])
                is_claimed = found.get(id_, False)
            has_answer = True
        finally:
            if not has_answer:
                self._end_soon(self._remove(scope, id_, holder))
        if is_claimed is None:
            raise EntityBusy(call.entity, call.key, busy_text(keeper))
        if not is_claimed:
            raise _moved(call)
        return as_claimed(message, holder)

    # Running

    async def _run(self, call: Call, entered: Entered, run: Run) -> bytes:
        returned, message = None, entered.message
        try:
            returned, made = await self._invoke(entered, run)
        finally:
            if returned is None:
                self._end_soon(self._give_up(message))
        ending = decide.settle(
            message, returned.committed, ENTITY_SETTINGS, sends=made.sends, batches=made.batches
        )
        if ending.fate is not Fate.ACK:
            self._end_soon(self._give_up(message))
            fault = f"a chain of {message.hops} messages led here; it may not send more"
            raise InvalidInput([FieldError("hops", fault)])
        settling = asyncio.create_task(self._settle(call, message, ending))
        self._ending.add(settling)
        settling.add_done_callback(self._ending.discard)
        await asyncio.shield(settling)
        return returned.value

    async def _invoke(self, entered: Entered, run: Run) -> tuple[Returned, Made]:
        """Runs the method as a handler, so that what it sends is kept for the commit."""
        claimed: ClaimedMessage[None] = ClaimedMessage(
            entered.message, None, compose=self._compose, monotonic=monotonic, deadline=float("inf")
        )
        handling = claimed.handling = Handling(claimed, is_repeated=False)
        handling.loop = asyncio.get_running_loop()
        before = enter(handling)
        try:
            try:
                returned = await run(entered)
                if handling.has_background:
                    await handling.finish()
            finally:
                if handling.has_background:
                    await handling.abandon()
        finally:
            made = handling.end()
            leave(before)
        return returned, made

    async def _settle(self, call: Call, message: Message, ending: Ending) -> None:
        try:
            answer = await self._retry.settle_special(partial(self._store_ending, ending))
        except CannotSettle as failure:
            self._end_soon(self._give_up(message))
            raise failure.error from None
        if answer.result.refused:
            raise _moved(call)

    async def _store_ending(self, ending: Ending) -> Any:
        return await self._store.messages.settle(Scope(ending.claim.tenant), Settlement((ending,)))

    # Ending calls that did not commit

    async def _give_up(self, message: Message) -> None:
        """Frees the entity without a change."""
        ending = decide.settle(message, Succeeded(), ENTITY_SETTINGS)
        await self._retry.settle(partial(self._store_ending, ending))

    async def _remove_entered(
        self, scope: Scope, id_: UUID, holder: UUID, entering: asyncio.Future[Any]
    ) -> None:
        """Removes a call after it was stored; one whose storing failed, also if it is stored
        later."""
        await asyncio.wait([entering])
        if await self._remove(scope, id_, holder) or entering.exception() is None:
            return
        task = asyncio.create_task(self._remove_late(scope, id_, holder))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _remove_late(self, scope: Scope, id_: UUID, holder: UUID) -> None:
        until, pause = monotonic() + LATE_SECONDS_MAX, NODE_PAUSE_SECONDS
        while monotonic() < until:
            await asyncio.sleep(pause)
            if await self._remove(scope, id_, holder):
                return
            pause = min(pause * 2, LOOK_SECONDS_MAX)

    async def _remove(self, scope: Scope, id_: UUID, holder: UUID) -> bool:
        """Removes a call that may be stored, and may be claimed; whether there was one."""
        while True:
            with suppress(StoreError):
                if await self._store.entities.withdraw(scope, id_):
                    return True
                found = await self._store.entities.entered(scope, [id_])
                break
            await asyncio.sleep(NODE_PAUSE_SECONDS)
        if id_ in found:
            # A direct call is claimed once.
            claim = Claim(scope.tenant or "default", id_, 1, holder)
            ending = Ending(claim=claim, fate=Fate.ACK)
            await self._retry.settle(partial(self._store_ending, ending))
        return id_ in found

    def _end_soon(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class CallNode:
    """The node of a process that makes direct calls: it joins the cluster with the first one."""

    def __init__(self, open_store: OpenStore, name: str) -> None:
        self._open_store = open_store
        self._name = name
        self._starting = asyncio.Lock()
        self._node: Node | None = None

    async def id(self) -> UUID:
        """The present id of the node. It changes when the lease was lost."""
        if self._node is None:
            async with self._starting:
                if self._node is None:
                    node = Node(self._open_store, name=self._name, roles=[CALLER_ROLE])
                    await node.start()
                    self._node = node
        return self._node.id

    async def stop(self) -> None:
        """Leaves the cluster."""
        async with self._starting:
            node, self._node = self._node, None
            if node is not None:
                await node.stop()


def _cause() -> Message | None:
    handling = current_handling()
    return None if handling is None else handling.cause


def _moved(call: Call) -> EntityMoved:
    text = "was lost during the call: the lease of this process expired; nothing was written"
    return EntityMoved(call.entity, call.key, text)
