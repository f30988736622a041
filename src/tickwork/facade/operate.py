"""What an operator asks an app: `app.queues`, `app.messages`, `app.history`, `app.batches`,
`app.dead_letters` and `app.nodes`.

Each call is done when it returns, also inside a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack
from uuid import UUID

from msgspec import structs

from tickwork.app.handlers import check_queue_name
from tickwork.core.answers.batch import BatchAnswer, ItemAnswer
from tickwork.core.answers.cluster import Node
from tickwork.core.answers.dead_letter import DeadLetter, ReplaySummary
from tickwork.core.answers.history import HistoryRecord
from tickwork.core.answers.ids import GivenId
from tickwork.core.answers.message import StoredMessage
from tickwork.core.answers.queue import QueueAnswer, SubscriptionBody
from tickwork.core.delivery.alert import AlertTarget, read_alert_target
from tickwork.core.fields import choice_error, read_id, read_instant, shown
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.message.batch import ItemStatus
from tickwork.core.message.body import known_content_type
from tickwork.core.message.dead_letter import (
    DeadGroup,
    MatchingDeadLetters,
    Selection,
)
from tickwork.core.message.history import HistoryDefault, HistoryKept, HistorySelection, Outcome
from tickwork.core.message.message_list import MessageSelection, ShownState
from tickwork.core.model import SYSTEM, ContentType
from tickwork.core.operation import CANARY_TIMEOUT_SECONDS
from tickwork.core.options.history import read_history_default
from tickwork.core.options.message import GivenContentType
from tickwork.core.options.queue import QueueOptions
from tickwork.core.queue.stats import QueueStats
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops import (
    alerts,
    batches,
    cluster,
    dead_letters,
    history,
    messages,
    queues,
    subscriptions,
)
from tickwork.ops.dead_letter_edits import edit_with_value


class Queues:
    """The queues of the tenant."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(self, *, limit: int = LIST_LIMIT_MAX) -> tuple[QueueAnswer, ...]:
        """Queues, by name."""
        return await queues.show_queues(await self._engine.context(), limit=limit)

    async def get(self, name: str) -> QueueAnswer:
        """One queue with its settings and how many messages are in each state. Raises
        `NotFound`."""
        return await queues.get_queue(await self._engine.context(name), name)

    async def put(self, name: str, **settings: Unpack[QueueOptions]) -> QueueAnswer:
        """Creates a queue for consumers that pull over HTTP, or replaces all its settings; a
        setting that is left out has its default. `app.queue` declares one with handlers."""
        check_queue_name("queue", name)
        context = await self._engine.context()
        stored, _ = await queues.put_queue(context, name, {**settings})
        return stored

    async def update(self, name: str, **changes: Unpack[QueueOptions]) -> QueueAnswer:
        """Changes settings of a queue, those of `app.queue`; None means the default again. Workers
        that run keep the old ones until they start again, except for queues that push. Settings
        given to `app.queue` are stored again when the app starts."""
        context = await self._engine.context(name)
        return await queues.update_queue(context, name, changes)

    async def stats(self, name: str) -> QueueStats:
        """How many messages wait, run and died, and how old the oldest is."""
        return await queues.queue_stats(await self._engine.context(name), name)

    async def pause(self, name: str) -> None:
        """Stops handing out messages. Running handlers finish."""
        await queues.pause_queue(await self._engine.context(name), name)

    async def resume(self, name: str) -> None:
        """Hands out messages again."""
        await queues.resume_queue(await self._engine.context(name), name)

    async def purge(self, name: str) -> int:
        """Deletes the messages that no worker has claimed, and returns how many."""
        return await queues.purge_queue(await self._engine.context(name), name)

    async def delete(self, name: str) -> None:
        """Deletes a queue that has neither messages nor open dead letters."""
        await queues.delete_queue(await self._engine.context(name), name)


class Messages:
    """Messages that are not settled yet."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def get(self, message_id: GivenId, *, queue: str | None = None) -> StoredMessage:
        """One message. Raises `NotFound` when it is settled, expired or deleted."""
        wanted = read_id("message_id", message_id)
        context = await self._engine.context(queue)
        return await messages.show_message(context, wanted, queue=queue)

    async def list(
        self,
        queue: str,
        *,
        state: ShownState | str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        key: str | None = None,
        correlation_id: str | None = None,
        older_than: float | None = None,
        limit: int = 100,
    ) -> tuple[StoredMessage, ...]:
        """The first messages of a queue: claimed ones, then ready and delayed ones in the order in
        which they are handed out, then blocked ones by key. Those of one `correlation_id` come by
        id. `older_than` is seconds since they were sent.

        `key` and `correlation_id` are found by an index. With another filter that few messages
        match, it looks at every message of the queue.
        """
        if state is not None and (fault := choice_error(state, ShownState)) is not None:
            raise InvalidInput([FieldError("state", fault)])
        context, until = await self._engine.context(queue), None
        if older_than is not None:
            until = await messages.database_time(context.store) - timedelta(seconds=older_than)
        selection = MessageSelection(
            state=None if state is None else ShownState(state),
            type=type,
            key=key,
            correlation_id=correlation_id,
            sent_until=until,
        )
        return await messages.first_messages(context, queue, selection, limit=limit)

    async def delete(self, queue: str, message_id: GivenId) -> None:
        """Deletes a message that no worker has claimed. Raises `NotFound`."""
        context, wanted = await self._engine.context(queue), read_id("message_id", message_id)
        if not await messages.delete_message(context, queue, wanted):
            raise NotFound("message", message_id, "it is settled, or claimed by a worker")

    async def peek(self, queue: str, *, limit: int = 100) -> tuple[StoredMessage, ...]:
        """The next ready messages of a queue, without claiming them."""
        context = await self._engine.context(queue)
        return await messages.show_next(context, queue, limit=limit)


class History:
    """Messages that have ended: handled, dead, expired or discarded ones."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def get(self, message_id: GivenId) -> HistoryRecord:
        """What became of a message. Raises `NotFound` if there is no record of it."""
        wanted = read_id("message_id", message_id)
        return await history.get_record(await self._engine.context(), wanted)

    async def list(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        outcome: Outcome | str | None = None,
        key: str | None = None,
        event_id: str | None = None,
        correlation_id: str | None = None,
        batch_id: GivenId | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int = 100,
    ) -> tuple[HistoryRecord, ...]:
        """The newest records: those that match all of these, ended at or after `since` and before
        `until`. `outcome` is done, dead, expired or discarded.

        `key`, `event_id` and `correlation_id` are found by an index. With another filter that few
        records match, it looks at every record of the time.
        """
        if outcome is not None and (fault := choice_error(outcome, Outcome)) is not None:
            raise InvalidInput([FieldError("outcome", fault)])
        selection = HistorySelection(
            queue=queue,
            type=type,
            outcome=None if outcome is None else Outcome(outcome),
            key=key,
            event_id=event_id,
            correlation_id=correlation_id,
            batch_id=None if batch_id is None else read_id("batch_id", batch_id),
            since=read_instant("since", since),
            until=read_instant("until", until),
        )
        return await history.first_history(await self._engine.context(), selection, limit=limit)

    async def was_handled(self, event_id: str, *, queue: str | None = None) -> bool:
        """Whether a message with this event id was handled in the last 15 days, in any queue or in
        this one, also if the queue keeps no history."""
        return await history.was_handled(await self._engine.context(), event_id, queue=queue)

    async def default(self) -> HistoryDefault:
        """What queues keep that have no setting of their own."""
        return await history.get_default(await self._engine.context())

    async def set_default(
        self, history_kept: HistoryKept, *, history_seconds: int = 86_400
    ) -> HistoryDefault:
        """Sets what queues keep that have no setting of their own, in the whole database: `all`,
        `failures` or `off`, and for how many seconds."""
        fields = {"history": history_kept, "history_seconds": history_seconds}
        context = (await self._engine.context()).within(SYSTEM)
        return await history.set_default(context, read_history_default(fields))


class Subscriptions:
    """Queues that get copies of messages and events by type."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(self) -> tuple[SubscriptionBody, ...]:
        """All subscriptions, by types and queue."""
        found = await subscriptions.list_subscriptions(await self._engine.context())
        return tuple(
            sorted(found, key=lambda subscription: (subscription.types, subscription.queue))
        )

    async def create(self, types: str, queue: str) -> SubscriptionBody:
        """Copies messages and events to a queue: of a type, of a prefix such as `order.*`, or `*`.
        A repeat has no effect."""
        context = await self._engine.context(queue)
        return await subscriptions.subscribe(context, types, queue)

    async def delete(self, types: str, queue: str) -> None:
        """Ends a subscription. Raises `NotFound`."""
        check_queue_name("queue", queue)
        context = await self._engine.context()
        if not await subscriptions.unsubscribe(context, types, queue):
            raise NotFound("subscription", f"of {queue} to {types}")


class Batches:
    """Batches by their id. `app.batch` creates one."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def get(self, batch_id: GivenId) -> BatchAnswer:
        """A batch with its exact counts. Raises `NotFound`."""
        context, wanted = await self._engine.context(), read_id("batch_id", batch_id)
        return await batches.get_batch(context, wanted)

    async def list(self, *, limit: int = 100) -> tuple[BatchAnswer, ...]:
        """The latest batches, newest first."""
        context = await self._engine.context()
        return await batches.list_batches(context, limit=limit)

    async def items(
        self,
        batch_id: GivenId,
        status: ItemStatus | str,
        *,
        limit: int = 100,
        after: GivenId | None = None,
    ) -> tuple[ItemAnswer, ...]:
        """The items of a batch that have a status: pending, processing, completed or failed."""
        context, wanted = await self._engine.context(), read_id("batch_id", batch_id)
        return await batches.list_items(
            context,
            wanted,
            _item_status(status),
            limit=limit,
            after=None if after is None else read_id("after", after),
        )

    async def cancel(self, batch_id: GivenId) -> BatchAnswer:
        """Deletes the items that no worker has claimed; they count as failed."""
        context, wanted = await self._engine.context(), read_id("batch_id", batch_id)
        return await batches.cancel_batch(context, wanted)


class DeadLetters:
    """The dead letters of a queue: look, edit, replay, discard."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(
        self,
        queue: str | None = None,
        *,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int = 100,
        after: GivenId | None = None,
    ) -> tuple[DeadLetter, ...]:
        """Open dead letters of a queue, oldest first; without a queue those of all queues, newest
        first. The next page: `after=letters[-1].id`.

        `no_type` selects those without a type. With a filter that few dead letters match, it looks
        at every one of the queue.
        """
        which = _selection(None, reason, fingerprint, type, no_type, failed_before)
        which = structs.replace(which, limit=limit)
        behind = None if after is None else read_id("after", after)
        context = await self._engine.context(queue)
        return await dead_letters.first_dead_letters(context, queue, which, after=behind)

    async def groups(self, queue: str, *, limit: int = 100) -> tuple[DeadGroup, ...]:
        """Open dead letters grouped by reason, error and type; the largest group first."""
        context = await self._engine.context(queue)
        return await dead_letters.group_dead_letters(context, queue, limit=limit)

    async def count(
        self,
        queue: str,
        *,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
    ) -> MatchingDeadLetters:
        """The number of open dead letters that match, and the time of the count. A replay or
        discard with this `failed_before` takes none that failed later."""
        which = _selection(None, reason, fingerprint, type, no_type, failed_before)
        context = await self._engine.context(queue)
        return await dead_letters.count_dead_letters(context, queue, which)

    async def get(self, dead_letter_id: GivenId) -> DeadLetter:
        """One dead letter, open or resolved. Raises `NotFound`."""
        context, wanted = await self._engine.context(), read_id("dead_letter_id", dead_letter_id)
        return await dead_letters.get_dead_letter(context, wanted)

    async def edit(
        self,
        dead_letter_id: GivenId,
        body: Any,
        *,
        content_type: GivenContentType = ContentType.JSON,
    ) -> DeadLetter:
        """Replaces the body of an open dead letter; a replay sends the new one."""
        kind = known_content_type(content_type)
        context, wanted = await self._engine.context(), read_id("dead_letter_id", dead_letter_id)
        await edit_with_value(context, wanted, body, kind)
        return await dead_letters.get_dead_letter(context, wanted)

    async def replay(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = None,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int | None = None,
        canary: int = 0,
        rate_per_second: float | None = None,
        canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ReplaySummary:
        """Sends dead letters again as new messages, oldest first.

        Raises `NotFound`, before anything is sent, if one of the `ids` is not an open dead letter
        of the queue.

        With `canary` that many go first, and the rest only if all of them were handled: a consumer
        must be running. With `rate_per_second` that many become visible in a second. `on_progress`
        is called with the number sent and the number in all.
        """
        which = _selection(ids, reason, fingerprint, type, no_type, failed_before)
        context = await self._engine.context(queue)
        return await dead_letters.replay(
            context,
            queue,
            which,
            limit=limit,
            canary=canary,
            rate_per_second=rate_per_second,
            canary_timeout_seconds=canary_timeout_seconds,
            on_progress=on_progress,
        )

    async def discard(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = None,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int | None = None,
    ) -> int:
        """Marks dead letters as discarded, oldest first, and returns how many. Raises `NotFound`,
        before anything is done, if one of the `ids` is not an open dead letter of the queue."""
        which = _selection(ids, reason, fingerprint, type, no_type, failed_before)
        context = await self._engine.context(queue)
        return await dead_letters.discard(context, queue, which, limit=limit)


class Webhooks:
    """The secret that webhooks are signed with."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def secret(self) -> str:
        """The current secret, `whsec_…`: receivers check signatures with it."""
        return await self._engine.signing_secret()

    async def rotate_secret(self) -> str:
        """Replaces the secret and returns the new one. The old one stays valid for a day: until
        then webhooks carry both signatures."""
        return await self._engine.signing_secret(rotate=True)


class Alerts:
    """Who gets alerts about dead letters, paused schedules, failing endpoints and the like."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def set(
        self,
        *,
        email: str | Sequence[str] | None = None,
        webhook: str | None = None,
        slack: str | None = None,
        discord: str | None = None,
    ) -> None:
        """Sends alerts to one of these from now on. What happens within fifteen minutes of an alert
        is in the next one.

        Args:
            email: Addresses that get an email.
            webhook: URL that gets a signed webhook.
            slack: URL of an incoming webhook of Slack.
            discord: URL of a webhook of Discord.
        """
        given = {"email": email, "webhook": webhook, "slack": slack, "discord": discord}
        target = read_alert_target(given)
        context = await self._engine.context()
        await alerts.set_alerts(context, target)

    async def get(self) -> AlertTarget | None:
        """Where alerts go; None if nowhere."""
        context = await self._engine.context()
        return await alerts.get_alerts(context)

    async def clear(self) -> None:
        """Sends no more alerts."""
        await alerts.clear_alerts(await self._engine.context())


class Nodes:
    """The processes that run on this database."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(self) -> tuple[Node, ...]:
        """Nodes with their roles, their leases and the shards they lead."""
        return await cluster.list_nodes(await self._engine.ready())


def _selection(
    ids: Sequence[GivenId] | None,
    reason: str | None,
    fingerprint: str | None,
    type_: str | None,
    no_type: bool,
    failed_before: datetime | str | None,
) -> Selection:
    if isinstance(ids, str | UUID) or not isinstance(ids, Iterable | None):
        raise InvalidInput([FieldError("ids", f"must be a list of ids, not {shown(ids)}")])
    wanted = None if ids is None else tuple(read_id("ids", id_) for id_ in ids)
    return Selection(
        ids=wanted,
        reason=reason,
        fingerprint=fingerprint,
        type=type_,
        no_type=no_type,
        failed_before=read_instant("failed_before", failed_before),
    )


def _item_status(given: ItemStatus | str) -> ItemStatus:
    try:
        return ItemStatus(given)
    except ValueError:
        fault = f"must be one of {', '.join(ItemStatus)}, not {shown(given)}"
        raise InvalidInput([FieldError("status", fault)]) from None
