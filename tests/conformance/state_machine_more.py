"""Steps of the state machine for dead letters, batches, subscriptions, tenants and queues."""

from typing import Any

from msgspec import structs

from tests.conformance.acts import ALL
from tests.conformance.comparison import Failed
from tests.conformance.state_machine_base import StateMachineBase
from tests.conformance.state_machine_steps import (
    DAY_SECONDS,
    ONE,
    OWN_OF_ONE,
    OWN_OF_TWO,
    SETTINGS,
    SHARED,
    TWO,
    Place,
)
from tests.stores.open_homes import Homes
from tickwork.core.message.batch import Batch, ItemStatus, NewBatch
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import (
    SYSTEM,
    BatchWithItems,
    ContentType,
    Ending,
    Fate,
    NewMessage,
    Scope,
    Send,
    Settlement,
    SettleResult,
    Tenant,
)
from tickwork.errors import BacklogFull, Conflict
from tickwork.store.contract import Store


class MoreSteps(StateMachineBase):
    """Operations on dead letters, batches and subscriptions, and settings of tenants and queues."""

    def __init__(self, homes: Homes) -> None:
        super().__init__(homes)
        self._batches: list[tuple[Place, NewBatch, list[NewMessage]]] = []
        self._graves: list[Place] = []

    # Dead letters

    def bury(self, chosen: list[int], error: str | None) -> None:
        """Some messages die, each at a different time: dead letters are ordered only by age."""
        for message in self._some_handed(chosen):
            self._settle(
                SYSTEM,
                Ending(claim=message.current_claim, fate=Fate.DEAD, reason="buried", error=error),
            )
            self._graves.append(Place(Scope(message.tenant), self._queue_names[message.queue_id]))
            self._stores.clock.advance(seconds=1)

    def letters(
        self, what: str, where: int | Place, chosen: list[int], spacing_seconds: float
    ) -> None:
        if isinstance(where, int):
            (place,) = self._some(self._graves, [where]) or [SHARED]
        else:
            place = where
        pace = Pace(first_after_seconds=spacing_seconds, spacing_seconds=spacing_seconds)
        if what == "replay":
            self._ask_about_letters(
                place,
                chosen,
                lambda store, ids: store.dead_letters.replay(*place, Selection(ids=ids), pace),
            )
        elif what == "discard":
            self._ask_about_letters(
                place,
                chosen,
                lambda store, ids: store.dead_letters.discard(*place, Selection(ids=ids)),
            )
        elif what == "edit":
            for pick in chosen:
                self._ask_about_letters(
                    place,
                    [pick],
                    lambda store, ids: store.dead_letters.edit(
                        place.scope, ids[0] if ids else self._schedule_id, b"!", ContentType.TEXT
                    ),
                )
        else:
            self._ask(lambda store: store.dead_letters.groups(*place, ALL))
            self._ask(lambda store: store.dead_letters.discard(*place, Selection(reason="expired")))

    # Batches

    def create(
        self,
        place: Place,
        many: list[dict[str, Any]],
        completion_queue: str | None,
        taken: int | None,
    ) -> None:
        """A batch; sometimes one of its items is a message already, and then it continues without
        it."""
        batch = NewBatch(id=self._new_id(), queue=place.queue, completion_queue=completion_queue)
        items = [self._new_message(fields) for fields in many]
        self._batches.append((place, batch, items))
        if taken is not None:
            tried = [*items, *(old for _, old in self._some(self._sent, [taken]))]
            self._ask(lambda store: _created_or_not(store, place.scope, batch, tried))
        if self._ask(lambda store: _created_or_not(store, place.scope, batch, items)):
            self._sent += [(place, item) for item in items]

    def settle_and_make(
        self,
        pick: int,
        fate: Fate,
        queue: str,
        many: list[dict[str, Any]],
        taken: int | None,
        *,
        again: bool,
    ) -> None:
        """A batch with an ending; sometimes one that exists already, and sometimes with an item
        that is a message already."""
        for message in self._some_handed([pick]):
            place = Place(Scope(message.tenant), queue)
            batch = NewBatch(id=self._new_id(), queue=queue, completion_queue="own")
            items = [self._new_message(fields) for fields in many]
            for _, known, old in self._some(self._batches, [pick] * again):
                batch, items = structs.replace(known, queue=queue), old
            old_ones = self._some(self._sent, [] if taken is None else [taken])
            made = BatchWithItems(
                id=batch.id,
                queue=queue,
                completion_queue="own",
                items=(*items, *(old for _, old in old_ones)),
            )
            ending = Ending(claim=message.current_claim, fate=fate, reason="made", batches=(made,))
            if self._ask(lambda store, ending=ending: _settled_or_not(store, ending)) is not None:
                self._open = [
                    open_message
                    for open_message in self._open
                    if open_message.current_claim != message.current_claim
                ]
                self._sent += [(place, item) for item in items]
                self._batches.append((place, batch, items))

    def finish(self, place: Place, fate: Fate, fields: dict[str, Any]) -> None:
        """A batch of one item whose settlement sends to the completion queue."""
        self.create(place, [{}], "own", None)
        self._claim_from(0)
        _, batch, _ = self._batches[-1]
        for message in [
            open_message for open_message in self._open if open_message.batch_id == batch.id
        ]:
            scope, following = Scope(message.tenant), self._new_message(fields)
            sends = (Send("own", following),)
            ending = Ending(claim=message.current_claim, fate=fate, reason="finished", sends=sends)
            if not isinstance(self._settle(scope, ending), Failed):
                self._sent.append((Place(scope, "own"), following))

    def batches(self, what: str, pick: int) -> None:
        for place, batch, items in self._some(self._batches, [pick]):
            if what == "cancel":
                self._ask(lambda store, at=place, id_=batch.id: store.batches.cancel(at.scope, id_))
            elif what == "repeat":
                self._ask(
                    lambda store, at=place, batch=batch, items=items: _created_or_not(
                        store, at.scope, batch, items
                    )
                )
            elif what == "elsewhere":
                moved = structs.replace(batch, queue="shared")
                self._ask(
                    lambda store, at=place, moved=moved: store.batches.create(at.scope, moved, [])
                )
            self._look_at_batch(place.scope, batch)

    def _look_at_batches(self) -> None:
        for scope in (ONE, TWO):
            self._ask(lambda store, scope=scope: store.batches.list(scope, ALL))
        for place, batch, _ in self._batches:
            self._look_at_batch(place.scope, batch)

    def _look_at_batch(self, scope: Scope, batch: NewBatch) -> None:
        seen = self._ask(lambda store: store.batches.get(scope, batch.id))
        numbers = {}
        for status in ItemStatus:
            found = self._ask(
                lambda store, status=status: store.batches.items(scope, batch.id, status, ALL)
            )
            numbers[status] = len(found)
        if isinstance(seen, Batch):
            assert numbers == {
                ItemStatus.PENDING: seen.pending,
                ItemStatus.PROCESSING: seen.processing,
                ItemStatus.COMPLETED: seen.completed,
                ItemStatus.FAILED: seen.failed,
            }
            assert sum(numbers.values()) == seen.total

    # Subscriptions

    def subscribe(self, what: str, place: Place, types: str) -> None:
        if what == "put":
            self._ask(lambda store: store.subscriptions.put(place.scope, types, place.queue))
        else:
            self._ask(lambda store: store.subscriptions.delete(place.scope, types, place.queue))
        self._ask(lambda store: store.subscriptions.list(place.scope))

    # Settings

    def govern_tenant(self, name: str, weight: int, *, suspended: bool) -> None:
        tenant = Tenant(id=name, weight=weight, suspended=suspended)
        self._ask(lambda store: store.tenants.put(SYSTEM, tenant))
        self._ask(lambda store: store.tenants.get(SYSTEM, name))

    def govern_queue(self, what: str, pick: int) -> None:
        """Limits. A rate only for a single tenant: otherwise the tenants' turns would decide."""
        place: Place
        fields: dict[str, Any]
        if what == "retries":
            place, fields = OWN_OF_ONE, {"max_retries": pick % 3}
        elif what == "rate":
            place, fields = OWN_OF_ONE, {"rate_per_second": [0.5, 2, 1_000][pick % 3]}
        elif what == "no backlog":
            place, fields = OWN_OF_ONE, {"backlog_bytes_max": None}
        elif what == "cap of all":
            place, fields = SHARED, {"tenant_claimed_max": 1 + pick}
        elif what == "cap":
            place, fields = OWN_OF_TWO, {"tenant_claimed_max": 1 + pick % 2}
        else:
            place, fields = [OWN_OF_ONE, OWN_OF_TWO, SHARED][pick % 3], {}
        self._put_queue(place, structs.replace(SETTINGS[place], **fields))

    def prune(self, days: int) -> None:
        self._stores.clock.advance(seconds=days * DAY_SECONDS)
        self._ask(pruned)


async def pruned(store: Store) -> object:
    """What is pruned; of the history the model keeps none."""
    return structs.replace(await store.pruner.prune(SYSTEM, ALL), history=0)


async def _settled_or_not(store: Store, ending: Ending) -> SettleResult | None:
    """None if there are two reasons to refuse, as below."""
    try:
        return await store.messages.settle(SYSTEM, Settlement((ending,)))
    except (Conflict, BacklogFull):
        return None


async def _created_or_not(
    store: Store, scope: Scope, batch: NewBatch, items: list[NewMessage]
) -> Batch | None:
    """None if there are two reasons to refuse: stores may differ in which one they report."""
    try:
        return await store.batches.create(scope, batch, items)
    except (Conflict, BacklogFull):
        return None
