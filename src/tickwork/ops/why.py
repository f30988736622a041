"""Answers why something waits, or did not fire: a schedule, a message, a dead letter, a delivery,
an endpoint, a run, a call or the alarm of an entity.

This module collects the facts; `wait_answers` and `schedules.why_answers` turn them into answers.

`box` reads the secrets of deliveries, to know whether they can be read. Without it the answers do
not say that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core.answers.ids import GivenId, Prefix, parse_public_id, public_id
from tickwork.core.answers.schedule import Why
from tickwork.core.answers.wait import Wait
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    DeliveryStatus,
    Endpoint,
    EndpointDelivery,
    read_endpoint_envelope,
)
from tickwork.core.delivery.request import SentSlot, read_delivery_id, sent_slot
from tickwork.core.delivery.sealed import SEALED_MARK, SealedText, open_channel
from tickwork.core.delivery.slot_delivery import slot_delivery
from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    Channel,
    EndpointTarget,
    WebhookTarget,
    read_envelope,
)
from tickwork.core.entity.call import check_key, check_type_name, entity_id, queue_of
from tickwork.core.fields import shown, text_faults
from tickwork.core.limits import is_pulled
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import SYSTEM, IdKind, Message, QueueSettings, Scope, State, StoredQueue
from tickwork.core.queue.rooms import Line
from tickwork.core.queue.wait_estimate import AHEAD_MAX
from tickwork.core.schedule.slot_outcome import settings_for
from tickwork.core.workflow.model import NO_STEPS, RUN_ID_LENGTH_MAX, Run
from tickwork.core.workflow.queue import pin_mark, runs_queue, workflow_of_queue
from tickwork.errors import InvalidInput, MissingExtra, NotFound, StoreBroken, StoreError
from tickwork.ops.context import Context
from tickwork.ops.endpoints import endpoint_keys, find_endpoint
from tickwork.ops.history import get_record
from tickwork.ops.ids import find_id, find_schedule_id, parse_short_id
from tickwork.ops.message_facts import MessageFacts, Unread, first_words
from tickwork.ops.messages import get_message
from tickwork.ops.obstacles import WORKER_ROLE, obstacles
from tickwork.ops.outside import Box, GetBox
from tickwork.ops.queue_estimate import estimate_wait
from tickwork.ops.run_wait import RunFacts, nodes_with, run_wait
from tickwork.ops.schedules.lookup import get_schedule, has_queue
from tickwork.ops.schedules.why import deleted_hint
from tickwork.ops.schedules.why import why as why_schedule
from tickwork.ops.schedules.why_answers import iso_second
from tickwork.ops.wait_answers import (
    dead_letter_wait,
    delivery_end,
    ended_wait,
    endpoint_wait,
    message_wait,
)
from tickwork.ops.webhook_secret import OWNER, SIGNING, readable
from tickwork.store.contract import Store

"""What reads secrets. Raises `InvalidInput` if this process has no key."""

_ID_DIGITS = 32
_Answer = Callable[[Context, UUID], Awaitable[Wait]]
_KINDS = "message, dead letter, delivery, endpoint or run"


async def why_anything(context: Context, text: str, at: datetime | None = None) -> Why | Wait:
    """Answers for a schedule (by name or id), a message, a dead letter, a delivery, an endpoint (by
    name or id) or a run. Ids may be given by their last digits. `at` is for schedules."""
    try:
        schedule_id = await find_schedule_id(context, text)
        return await why_schedule(context, schedule_id, at)
    except NotFound as error:
        if at is not None:
            raise
        try:
            return await why_waits(context, text)
        except NotFound:
            if parse_short_id(text) is not None:
                raise NotFound(f"schedule, {_KINDS}", text, "a handled message is gone") from None
            raise deleted_hint(error) from None


async def why_waits(context: Context, text: str) -> Wait:
    """Answers for a message, a dead letter, a delivery, an endpoint (or its name) or a run, by its
    id; and for a slot, by the `webhook-id` that its receiver got."""
    with suppress(NotFound):
        return await why_run(context, text)
    with suppress(NotFound):
        return await why_endpoint(context, text)
    if (sent := read_delivery_id(text)) is not None:
        with suppress(NotFound):
            return await why_sent(context, sent)
    digits = parse_short_id(text)
    if digits is None:
        raise NotFound(_KINDS, text)
    found = parse_public_id(text)
    if len(digits) < _ID_DIGITS:
        found = await _by_last_digits(context, text)
    if found is None:
        raise NotFound(_KINDS, text)
    asked: Mapping[str, Sequence[_Answer]] = {
        Prefix.MESSAGE: (why_sent_message,),
        Prefix.DEAD_LETTER: (why_dead_letter,),
        Prefix.DELIVERY: (why_delivery,),
        Prefix.ENDPOINT: (),
    }
    anything = (why_sent_message, why_dead_letter, why_delivery)
    for answer in asked.get(text.partition("_")[0], anything):
        with suppress(NotFound):
            return await answer(context, found)
    raise NotFound(_KINDS, text)


async def _by_last_digits(context: Context, text: str) -> UUID:
    for kind in (IdKind.MESSAGE, IdKind.DEAD_LETTER, IdKind.DEAD_MESSAGE):
        with suppress(NotFound):
            return await find_id(context, kind, text)
    return await find_id(context, IdKind.DELIVERY, text)


async def why_message(context: Context, message_id: UUID) -> Wait:
    """Answers for a message that is not settled; raises `NotFound` if there is none. The message
    of a run answers for the run, that of a delivery to an endpoint for the delivery."""
    message = await get_message(context, message_id)
    queue = await _queue_of(context, message)
    if workflow_of_queue(queue.name) is not None:
        with suppress(NotFound, msgspec.MsgspecError):
            run_id = msgspec.json.decode(message.body, type=str)
            return await why_run(context.within(Scope(message.tenant)), run_id)
    return message_wait(await _facts(context, message, queue))


async def why_sent_message(context: Context, message_id: UUID) -> Wait:
    """Answers for a message that waits, died, or has ended."""
    try:
        return await why_message(context, message_id)
    except NotFound as error:
        letter = await context.store.dead_letters.of_message(context.scope, message_id)
        if letter is not None:
            return await why_dead_letter(context, letter.id)
        with suppress(NotFound):
            return ended_wait(await get_record(context, message_id))
        raise error from None


async def why_sent(context: Context, sent: SentSlot) -> Wait:
    """Answers for the slot that a webhook or an email was sent for: what its message waits for, or
    what became of it."""
    schedule = await get_schedule(context, sent.schedule_id)
    waiting = await context.store.schedules.messages(
        context.scope, schedule.id, RUNS_OF_SLOT_MAX, since=sent.slot
    )
    for message in waiting:
        if sent_slot(message) == sent:
            with suppress(NotFound):  # It was settled meanwhile.
                return await why_message(context.within(Scope(message.tenant)), message.id)
    found = await why_schedule(context, schedule.id, sent.slot)
    name = schedule.name or public_id(Prefix.SCHEDULE, schedule.id)
    words = f"{found.answer[:1].lower()}{found.answer[1:]}"
    last = max(found.firings, key=lambda firing: firing.run, default=None)
    return Wait(
        kind="firing",
        id=public_id(Prefix.SCHEDULE, schedule.id),
        code=found.code,
        answer=f"Slot {iso_second(found.at)} of schedule {name}: {words}",
        next=f"Nothing; `tickwork schedules firings '{name}'` lists all attempts.",
        since=None if last is None else last.finished_at,
    )


RUNS_OF_SLOT_MAX = 100
"""Number of messages from a slot on among which that of one of its runs is searched."""


async def why_delivery(context: Context, delivery_id: UUID) -> Wait:
    """Answers for a delivery to an endpoint: why it waits, or what became of it."""
    delivery = await context.store.endpoints.delivery(context.scope, delivery_id)
    own, endpoint = Scope(delivery.tenant), None
    if delivery.status is DeliveryStatus.WAITING:
        with suppress(NotFound):  # It was settled after the delivery was read.
            return await why_message(context.within(own), delivery.message_id)
        delivery = await context.store.endpoints.delivery(context.scope, delivery_id)
    with suppress(NotFound):
        endpoint = await context.store.endpoints.get(own, delivery.endpoint_id)
    letter = await context.store.dead_letters.of_message(own, delivery.message_id)
    is_sent_once = letter is not None and _is_sent_once(letter.body)
    return delivery_end(delivery, endpoint, letter, is_sent_once=is_sent_once)


def _is_sent_once(body: bytes) -> bool:
    """Whether this is the delivery of a schedule that may not be repeated."""
    with suppress(msgspec.MsgspecError):  # That of an event has another form.
        return read_envelope(body).is_at_most_once
    return False


async def why_endpoint(context: Context, reference: GivenId) -> Wait:
    """Answers for an endpoint, by its name or id: whether it takes deliveries."""
    endpoint = await find_endpoint(context, reference)
    return endpoint_wait(
        endpoint,
        await context.store.now(),
        await _unread_of(context.store, endpoint, context.outside.secret_reader),
    )


async def why_dead_letter(context: Context, dead_letter_id: UUID) -> Wait:
    """Answers for a dead letter."""
    letter = await context.store.dead_letters.get(context.scope, dead_letter_id)
    names = {queue.id: queue.name for queue in await context.store.queues.list(context.scope)}
    return dead_letter_wait(letter, names.get(letter.queue_id, "that was deleted"))


async def why_run(context: Context, run_id: str, *, workflow: str | None = None) -> Wait:
    """Answers for a run; its details name the steps it waits for. `NotFound` if it is none of the
    `workflow`."""
    if text_faults("id", run_id, RUN_ID_LENGTH_MAX):
        raise NotFound("run", shown(run_id))
    page = await context.store.workflows.page(context.scope, run_id, NO_STEPS)
    if workflow not in (None, page.run.workflow):
        raise NotFound(f"run of workflow {workflow}", run_id)
    nodes = nodes_with(page.run.workflow, await context.store.nodes.list(SYSTEM), page.now)
    message = await _run_facts(context, page.run)
    facts = RunFacts(page=page, message=message, nodes=nodes)
    if facts.without_version():
        mark = pin_mark(runs_queue(page.run.workflow, page.run.version))
        is_pinned = await has_queue(context.within(SYSTEM), mark)
        facts = structs.replace(facts, is_pinned=is_pinned)
    return run_wait(facts)


async def why_entity(context: Context, type_name: str, key: str) -> tuple[Wait, ...]:
    """Answers for an entity: its alarm, and the calls that run or wait, the first ones first."""
    check_type_name(type_name)
    check_key(key)
    entity, queue = entity_id(type_name, key), queue_of(type_name)
    with suppress(NotFound):
        known = await context.store.queues.get(context.scope, queue)
        head = await context.store.entities.head(context.scope, entity)
        found = list[Message]()
        if head.state is not None and head.state.alarm is not None:
            with suppress(NotFound):
                found.append(
                    await context.store.messages.get(context.scope, queue, head.state.alarm.id)
                )
        selection = MessageSelection(key=str(entity))
        found += (
            await context.store.messages.list(context.scope, queue, selection, CALLS_SHOWN)
        ).messages
        return tuple([message_wait(await _facts(context, message, known)) for message in found])
    raise NotFound("type of entities", type_name)


async def what_keeps(context: Context, type_name: str, key: str, call: UUID | None = None) -> str:
    """What keeps an entity from a call that waits for it, as part of a sentence."""
    queue, entity = queue_of(type_name), entity_id(type_name, key)
    with suppress(NotFound, StoreError):
        first = await _first_of_key(context, queue, str(entity))
        if first is not None and first.id != call:
            known = await context.store.queues.get(context.scope, queue)
            return first_words(await _claim_facts(context, first, known))
    return "other calls"


CALLS_SHOWN = 20
"""Number of calls of an entity that are explained."""


async def _run_facts(context: Context, run: Run) -> MessageFacts | None:
    # A run that was started without a version may still be in the queue of its workflow.
    for queue in {runs_queue(run.workflow, run.version), runs_queue(run.workflow)}:
        with suppress(NotFound):
            known = await context.store.queues.get(context.scope, queue)
            message = await context.store.messages.get(context.scope, queue, run.message_id)
            return await _facts(context, message, known)
    return None


async def _facts(context: Context, message: Message, queue: StoredQueue) -> MessageFacts:
    owner = Scope(message.tenant) if context.scope.is_system else context.scope
    claimed, ahead = await _claim_facts(context.within(owner), message, queue), None
    if message.state is State.BLOCKED and message.key is not None:
        first = await _first_of_key(context.within(owner), queue.name, message.key)
        if first is not None and first.id != message.id:
            ahead = await _claim_facts(context.within(owner), first, queue)
    found = list[str]()
    pulls = is_pulled(queue)
    expected = line = None
    if message.state is not State.CLAIMED:
        role = None if pulls else WORKER_ROLE
        found = await obstacles(context.within(owner), queue.name, message.tenant, role)
    if message.state is State.READY and message.visible_at <= claimed.now:
        line = await _line_of(context.store, message, queue)
        expected = await estimate_wait(context.store, message, queue, found, line)
    delivery, endpoint = await _destination(context.store, message, queue)
    unread = None
    if endpoint is not None:
        unread = await _unread_of(context.store, endpoint, context.outside.secret_reader)
    elif queue.name == DELIVERIES_QUEUE:
        unread = await _unread_by(context.store, message, context.outside.secret_reader)
    return structs.replace(
        claimed,
        settings=_settings(message, queue, endpoint),
        ahead=ahead,
        obstacles=found,
        delivery=delivery,
        endpoint=endpoint,
        unread=unread,
        is_pulled=pulls,
        pulled_at=await context.store.queues.pulled_at(owner, queue.name) if pulls else None,
        estimate=expected,
        line=line,
    )


async def _line_of(store: Store, message: Message, queue: StoredQueue) -> Line | None:
    """The line of the receiver of a delivery; None for other messages."""
    if not message.receiver:
        return None
    return await store.messages.line(Scope(message.tenant), queue.name, message, AHEAD_MAX)


async def _claim_facts(context: Context, message: Message, queue: StoredQueue) -> MessageFacts:
    """Who has a message, and until when."""
    facts = MessageFacts(
        message=message, queue=queue.name, settings=queue.settings, now=await context.store.now()
    )
    if facts.is_call:
        calls = await context.store.entities.entered(context.scope, [message.id])
        facts = structs.replace(facts, is_direct=message.id in calls)
    if message.holder is None:
        return facts
    node = {node.id: node for node in await context.store.nodes.list(SYSTEM)}.get(message.holder)
    if node is None:
        return facts
    return structs.replace(facts, holder=node.name, lease_until=node.expires_at)


async def _first_of_key(context: Context, queue: str, key: str) -> Message | None:
    selection = MessageSelection(key=key)
    return next(
        iter((await context.store.messages.list(context.scope, queue, selection, 1)).messages), None
    )


def _settings(message: Message, queue: StoredQueue, endpoint: Endpoint | None) -> QueueSettings:
    """The settings of its queue, with the retries that a message has of its own."""
    settings = settings_for(message, queue.settings)
    if endpoint is not None and queue.name == ENDPOINTS_QUEUE:
        return structs.replace(settings, max_retries=len(endpoint.settings.retry_seconds))
    if queue.name == DELIVERIES_QUEUE and _is_sent_once(message.body):
        return structs.replace(settings, max_retries=0)
    return settings


async def _unread_of(store: Store, endpoint: Endpoint, box: GetBox | None) -> Unread | None:
    """The secrets of an endpoint, if they cannot be read."""
    return await _unread(
        box,
        lambda opened: endpoint_keys(store, endpoint, opened),
        "delete the endpoint and create it again",
    )


async def _unread_by(store: Store, message: Message, box: GetBox | None) -> Unread | None:
    """The secrets that a delivery of a schedule needs and that cannot be read: those in its target,
    or that of its tenant."""
    scope, channels = Scope(message.tenant), tuple[Channel, ...]()
    with suppress(msgspec.MsgspecError):
        channels = tuple(read_envelope(message.body).channels.values())

    async def open_all(opened: Box) -> None:
        def decrypt(sealed: SealedText, field: str) -> str:
            return opened.decrypt(sealed.ciphertext, message.tenant, sealed.row, field)

        for channel in channels:
            open_channel(channel, decrypt)

    async def read_own(opened: Box) -> None:
        readable(opened, own, message.tenant, OWNER, SIGNING)

    unread = None
    if SEALED_MARK in message.body:
        unread = await _unread(box, open_all, "give the secrets of the schedule's target again")
    own = await store.secrets.get(scope, OWNER, SIGNING)
    if unread is None and own and WebhookTarget in map(type, channels):
        unread = await _unread(box, read_own, "replace it: `tickwork webhooks secret --lost-key`")
    return unread


async def _unread(
    box: GetBox | None, read: Callable[[Box], Awaitable[object]], if_lost: str
) -> Unread | None:
    if box is None:
        return None
    try:
        await read(box())
    except StoreBroken as error:
        return Unread(str(error), if_lost)
    except (InvalidInput, MissingExtra) as error:
        return Unread(str(error))
    return None


async def _destination(
    store: Store, message: Message, queue: StoredQueue
) -> tuple[EndpointDelivery | None, Endpoint | None]:
    """The delivery that a message makes, and the endpoint that it is sent or pushed to, if any."""
    scope, name = Scope(message.tenant), queue.settings.push_to
    delivery, endpoint = None, None
    with suppress(NotFound, msgspec.MsgspecError):
        if queue.name == ENDPOINTS_QUEUE:
            sent = read_endpoint_envelope(message.body)
            endpoint = await store.endpoints.get(scope, sent.endpoint)
            delivery = await store.endpoints.delivery(scope, sent.delivery)
        elif queue.name == DELIVERIES_QUEUE:
            envelope = read_envelope(message.body)
            if isinstance(envelope.target, EndpointTarget):
                endpoint = await find_endpoint(Context(store, scope), envelope.target.endpoint)
                delivery_id = slot_delivery(message, endpoint.id, envelope).id
                delivery = await store.endpoints.delivery(scope, delivery_id)
        elif name is not None:
            endpoint = await find_endpoint(Context(store, scope), name)
    return delivery, endpoint


async def _queue_of(context: Context, message: Message) -> StoredQueue:
    for queue in await context.store.queues.list(context.scope):
        if queue.id == message.queue_id:
            return queue
    raise NotFound("queue", message.queue_id)
