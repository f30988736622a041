"""A state machine that runs the same steps on the model, SQLite and PostgreSQL.

Most claims find a message and most settlements have a valid claim, so that a short run covers much.
Stale claims, dead nodes and duplicates occur by themselves, because everything once claimed stays
in reach.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis.stateful import initialize, rule
from msgspec import structs

from tests.conformance.acts import ALL
from tests.conformance.acts import letters as open_letters
from tests.conformance.comparison import Failed
from tests.conformance.state_machine_more import MoreSteps, pruned
from tests.conformance.state_machine_steps import (
    DAY_SECONDS,
    EVERY_PLACE,
    ONE,
    OWN_OF_ONE,
    OWN_OF_TWO,
    SETTINGS,
    SHARED,
    TTL_SECONDS,
    TWO,
    Place,
    Step,
    several_messages,
    steps,
)
from tickwork.core.model import SYSTEM, ClaimRequest, Ending, Fate, Scope, Send, Tenant
from tickwork.core.schedule.firing import (
    FIRINGS_KEPT_SECONDS,
    FiringRecord,
    FiringResult,
    FiringStatus,
)
from tickwork.store.contract import Store

FIRED = FiringResult(status=FiringStatus.SUCCEEDED, took_seconds=0.5, result_code=200)


class StoreMachine(MoreSteps):
    """Steps: send, claim, settle, and all other operations of a store."""

    @initialize(many=several_messages)
    def begin(self, many: list[dict[str, Any]]) -> None:
        for name in ("one", "two"):
            self._ask(lambda store, name=name: store.tenants.put(SYSTEM, Tenant(id=name)))
        for place, settings in SETTINGS.items():
            self._put_queue(place, settings)
        self._join()
        for place in (OWN_OF_ONE, Place(ONE, "shared")):
            self.send(place, many, [], None)

    def teardown(self) -> None:
        try:
            self._look_around()
            # A month later only messages with a longer delay are left.
            self.die(31 * DAY_SECONDS, reap=True)
            self._ask(pruned)
            self._look_around()
        finally:
            self._runner.run(self._stores.close())
            self._runner.close()

    @rule(step=steps)
    def take(self, step: Step) -> None:
        """One rule for all steps: Hypothesis would disable separate ones at random."""
        getattr(self, step.act)(**step.how)

    # Send

    def send(
        self,
        place: Place,
        many: list[dict[str, Any]],
        repeats: list[int],
        bad: dict[str, Any] | None,
    ) -> None:
        messages = [self._new_message(fields) for fields in many]
        if bad:
            messages.append(self._new_message(bad))
        for old_place, old in self._some(self._sent, repeats):
            messages.append(old)
            self._ask(lambda store, at=old_place, old=old: store.messages.send(*at, old))
        if len(messages) == 1:
            answer = self._ask(lambda store: store.messages.send(*place, messages[0]))
        else:
            answer = self._ask(lambda store: store.messages.send_batch(*place, messages))
        if bad:
            assert isinstance(answer, Failed)
        # What a full queue refused may be sent again later.
        self._sent += [] if bad else [(place, message) for message in messages]

    # Claim

    def claim(
        self,
        where: int | Place,
        limit: int,
        lease_seconds: float | None,
        pick: int,
        *,
        alive: bool,
    ) -> None:
        place = self._sent[-1 - where % len(self._sent)][0] if isinstance(where, int) else where
        holder = self._node(pick, alive=alive) if lease_seconds is None else self._new_id()
        request = ClaimRequest(
            queue=place.queue, holder=holder, limit=limit, lease_seconds=lease_seconds
        )
        self._claim(place.scope, request)

    def claim_separately_or_for_all(self, place: Place, limit: int, *, separate: bool) -> None:
        holder, place = self._node(0, alive=True), place if separate else SHARED
        limit = limit if separate else ALL
        request = ClaimRequest(queue=place.queue, holder=holder, limit=limit, separate=separate)
        self._claim(place.scope, request)

    def extend(self, pick: int, lease_seconds: float) -> None:
        for message in self._some_handed([pick]):
            held = message.current_claim
            self._ask(lambda store, held=held: store.messages.extend(SYSTEM, held, lease_seconds))

    # Settle

    def settle(
        self, chosen: list[int], fate: Fate, delay_seconds: float, error: str | None
    ) -> None:
        # Of duplicates in one settlement any may win; sorted by id, the first one does.
        messages = sorted(self._some_handed(chosen), key=lambda message: message.id)
        self._settle(
            SYSTEM,
            *(
                Ending(
                    claim=message.current_claim,
                    fate=fate,
                    delay_seconds=delay_seconds,
                    reason="given up" if fate is Fate.DEAD else None,
                    error=error,
                    effects=(FIRED,),
                )
                for message in messages
            ),
        )

    def settle_in_mixed_ways(self, chosen: list[int]) -> None:
        messages = self._some_handed(chosen)
        fates = [Fate.RETRY, Fate.DEAD, Fate.RELEASE, Fate.ACK]
        self._settle(
            SYSTEM,
            *(
                Ending(claim=message.current_claim, fate=fate, delay_seconds=3, reason="mixed")
                for message, fate in zip(messages, fates, strict=False)
            ),
        )

    def settle_and_send(self, pick: int, fate: Fate, queue: str, fields: dict[str, Any]) -> None:
        for message in self._some_handed([pick]):
            scope = Scope(message.tenant)
            place = Place(scope, queue)
            following = self._new_message(fields)
            sends = (Send(queue, following),)
            answer = self._settle(
                scope, Ending(claim=message.current_claim, fate=fate, sends=sends)
            )
            if not isinstance(answer, Failed):
                self._sent.append((place, following))

    def settle_what_is_not_held(self, pick: int, fate: Fate, how: str) -> None:
        for message in self._some_handed([pick]):
            scope = Scope(message.tenant)
            stranger = TWO if scope == ONE else ONE
            forged = {
                "holder": structs.replace(message.current_claim, holder=self._new_id()),
                "claim": structs.replace(message.current_claim, number=message.claim + 1_000),
                "tenant": structs.replace(message.current_claim, tenant=str(stranger.tenant)),
                "scope": message.current_claim,
            }[how]
            sends = (Send("shared", self._new_message({})),)
            ending = Ending(claim=forged, fate=fate, reason="forged", sends=sends, effects=(FIRED,))
            answer = self._settle(stranger if how == "scope" else scope, ending)
            assert answer.refused == (forged,)

    # Queues, nodes, time

    def manage(self, what: str, place: Place, pick: int) -> None:
        if what == "crash":
            self._runner.run(self._stores.crash())
        elif what == "purge":
            self._ask(lambda store: store.queues.purge(*place))
        elif what == "pause":
            self._ask(lambda store: store.queues.pause(*place))
        elif what == "resume":
            self._ask(lambda store: store.queues.resume(*place))
        elif what == "make anew":
            self._ask(lambda store: store.queues.delete(*OWN_OF_TWO))
            self._put_queue(OWN_OF_TWO, SETTINGS[OWN_OF_TWO])
        for at, message in self._some(self._sent, [pick] if what == "delete" else []):
            id_ = message.id
            self._ask(lambda store, at=at, id_=id_: store.messages.get(*at, id_))
            self._ask(lambda store, at=at, id_=id_: store.messages.delete(*at, id_))

    def live(self, pick: int, what: str) -> None:
        node = self._node(pick, alive=what == "join")
        if what == "beat":
            self._ask(lambda store: store.nodes.heartbeat(SYSTEM, node, TTL_SECONDS))
        elif what == "leave":
            self._ask(lambda store: store.nodes.leave(SYSTEM, node))
        elif what == "give back":
            known = [message.id for message in self._handed[-1 - pick : -1]]
            self._ask(lambda store: store.nodes.give_back_unknown(SYSTEM, node, known))

    def die(self, seconds: float, *, reap: bool) -> None:
        """No heartbeats for this long; then, mostly, the reaper runs."""
        self._stores.clock.advance(seconds=seconds)
        if reap:
            self._ask(lambda store: store.reaper.reap(SYSTEM, ALL))

    def kill(self, place: Place, *, separate: bool) -> None:
        """A node claims everything it can and dies."""
        holder = self._join()
        request = ClaimRequest(queue=place.queue, holder=holder, limit=ALL, separate=separate)
        self._claim(place.scope, request)
        self.die(TTL_SECONDS, reap=True)

    def look(self, place: Place) -> None:
        self._look(place)
        self._ask(lambda store: store.nodes.list(SYSTEM))

    def _look_around(self) -> None:
        self._ask(lambda store: store.reaper.next_expiry(SYSTEM))
        for place in EVERY_PLACE:
            self._look(place)
        for scope in (ONE, TWO):
            self._ask(lambda store, at=scope: _kept_firings(store, at, self._schedule_id))
        self._look_at_batches()

    def _look(self, place: Place) -> None:
        counts = self._ask(lambda store: store.queues.counts(*place))
        ready = self._ask(lambda store: store.messages.peek(*place, ALL))
        self._ask(lambda store: store.messages.next_visible_at(*place))
        scope, queue = place
        letters = self._ask(lambda store: open_letters(store, queue, scope=scope))
        assert (counts.ready, counts.dead) == (len(ready), len(letters))
        stats = self._ask(lambda store: store.stats.queue(*place))
        assert stats.counts == counts


async def _kept_firings(store: Store, scope: Scope, schedule_id: UUID) -> tuple[FiringRecord, ...]:
    """Those that must still exist; older ones may be pruned."""
    since = await store.now() - timedelta(seconds=FIRINGS_KEPT_SECONDS)
    found = await store.firings.list(scope, schedule_id, ALL)
    return tuple(firing for firing in found if firing.finished_at and firing.finished_at > since)
