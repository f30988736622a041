"""Answers why something waits, or did not fire: a schedule, a message, a dead letter, a run, a call
or the alarm of an entity.

This module collects the facts; `wait_answers` and `schedules.why_answers` turn them into answers.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.entity.call import check_key, check_type_name, entity_id, queue_of
from tickwork.core.fields import shown
from tickwork.core.limits import is_hidden, text_faults
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import SYSTEM, IdKind, Message, Scope, State, StoredQueue
from tickwork.core.public_id import Prefix, parse_public_id
from tickwork.core.workflow.model import NO_STEPS, RUN_ID_LENGTH_MAX, Run
from tickwork.core.workflow.queue import runs_queue, workflow_of_queue
from tickwork.errors import NotFound
from tickwork.ops.ids import find_id, find_schedule_id, parse_short_id
from tickwork.ops.messages import get_message
from tickwork.ops.obstacles import WORKER_ROLE, obstacles
from tickwork.ops.schedules.why import Why, deleted_hint
from tickwork.ops.schedules.why import why as why_schedule
from tickwork.ops.wait_answers import (
    MessageFacts,
    Wait,
    dead_letter_wait,
    message_wait,
    run_wait,
)
from tickwork.store.contract import Store

_ID_DIGITS = 32


async def why_anything(
    store: Store, scope: Scope, text: str, at: datetime | None = None
) -> Why | Wait:
    """Answers for a schedule (by name or id), a message, a dead letter or a run. Ids may be given
    by their last digits. `at` is for schedules."""
    try:
        schedule_id = await find_schedule_id(store, scope, text)
        return await why_schedule(store, scope, schedule_id, at)
    except NotFound as error:
        if at is not None:
            raise
        try:
            return await why_waits(store, scope, text)
        except NotFound:
            if parse_short_id(text) is not None:
                kinds = "schedule, message, dead letter or run"
                raise NotFound(kinds, text, "a handled message is gone") from None
            raise deleted_hint(error) from None


async def why_waits(store: Store, scope: Scope, text: str) -> Wait:
    """Answers for a message, a dead letter or a run, by its id."""
    with suppress(NotFound):
        return await why_run(store, scope, text)
    digits = parse_short_id(text)
    if digits is None:
        raise NotFound("message, dead letter or run", text)
    found = parse_public_id(text)
    if len(digits) < _ID_DIGITS:
        found = await _by_last_digits(store, scope, text)
    if found is None:
        raise NotFound("message, dead letter or run", text)
    if not text.startswith(f"{Prefix.DEAD_LETTER}_"):
        with suppress(NotFound):
            return await why_message(store, scope, found)
    return await why_dead_letter(store, scope, found)


async def _by_last_digits(store: Store, scope: Scope, text: str) -> UUID:
    try:
        return await find_id(store, scope, IdKind.MESSAGE, text)
    except NotFound:
        return await find_id(store, scope, IdKind.DEAD_LETTER, text)


async def why_message(store: Store, scope: Scope, message_id: UUID) -> Wait:
    """Answers for a message that is not settled; raises `NotFound` if there is none. The message
    of a run answers for the run."""
    message = await get_message(store, scope, message_id)
    queue = await _queue_of(store, scope, message)
    if workflow_of_queue(queue.name) is not None:
        with suppress(NotFound, msgspec.MsgspecError):
            run_id = msgspec.json.decode(message.body, type=str)
            return await why_run(store, Scope(message.tenant), run_id)
    return message_wait(await _facts(store, scope, message, queue))


async def why_dead_letter(store: Store, scope: Scope, dead_letter_id: UUID) -> Wait:
    """Answers for a dead letter."""
    letter = await store.dead_letters.get(scope, dead_letter_id)
    names = {each.id: each.name for each in await store.queues.list(scope)}
    return dead_letter_wait(letter, names.get(letter.queue_id, "that was deleted"))


async def why_run(store: Store, scope: Scope, run_id: str, *, workflow: str | None = None) -> Wait:
    """Answers for a run; its details name the steps it waits for. `NotFound` if it is none of the
    `workflow`."""
    if text_faults("id", run_id, RUN_ID_LENGTH_MAX):
        raise NotFound("run", shown(run_id))
    page = await store.workflows.page(scope, run_id, NO_STEPS)
    if workflow not in (None, page.run.workflow):
        raise NotFound(f"run of workflow {workflow}", run_id)
    return run_wait(page, await _run_facts(store, scope, page.run))


async def why_entity(store: Store, scope: Scope, type_name: str, key: str) -> tuple[Wait, ...]:
    """Answers for an entity: its alarm, and the calls that run or wait, the first ones first."""
    check_type_name(type_name)
    check_key(key)
    entity, queue = entity_id(type_name, key), queue_of(type_name)
    with suppress(NotFound):
        known = await store.queues.get(scope, queue)
        head = await store.entities.head(scope, entity)
        found = list[Message]()
        if head.state is not None and head.state.alarm is not None:
            with suppress(NotFound):
                found.append(await store.messages.get(scope, queue, head.state.alarm.id))
        selection = MessageSelection(key=str(entity))
        found += (await store.messages.list(scope, queue, selection, CALLS_SHOWN)).messages
        return tuple([message_wait(await _facts(store, scope, each, known)) for each in found])
    raise NotFound("type of entities", type_name)


CALLS_SHOWN = 20
"""Number of calls of an entity that are explained."""


async def _run_facts(store: Store, scope: Scope, run: Run) -> MessageFacts | None:
    queue = runs_queue(run.workflow)
    try:
        known = await store.queues.get(scope, queue)
        message = await store.messages.get(scope, queue, run.message_id)
    except NotFound:
        return None
    return await _facts(store, scope, message, known)


async def _facts(store: Store, scope: Scope, message: Message, queue: StoredQueue) -> MessageFacts:
    owner = Scope(message.tenant) if scope.is_system else scope
    now, holder, is_alive, ahead = await store.now(), None, True, None
    if message.holder is not None:
        node = {each.id: each for each in await store.nodes.list(SYSTEM)}.get(message.holder)
        holder = None if node is None else node.name
        is_alive = node is None or node.expires_at > now
    if message.state is State.BLOCKED and message.key is not None:
        selection = MessageSelection(key=message.key)
        first = (await store.messages.list(owner, queue.name, selection, 1)).messages
        ahead = next((each for each in first if each.id != message.id), None)
    found: list[str] = []
    if message.state is not State.CLAIMED:
        is_pulled = queue.declared_by is None and not is_hidden(queue.name)
        role = None if is_pulled else WORKER_ROLE
        found = await obstacles(store, owner, queue.name, message.tenant, role)
    return MessageFacts(
        message=message,
        queue=queue.name,
        settings=queue.settings,
        now=now,
        holder=holder,
        is_holder_alive=is_alive,
        ahead=ahead,
        obstacles=found,
    )


async def _queue_of(store: Store, scope: Scope, message: Message) -> StoredQueue:
    for each in await store.queues.list(scope):
        if each.id == message.queue_id:
            return each
    raise NotFound("queue", message.queue_id)
