"""A state machine that does the same to the model, SQLite and PostgreSQL, step by step.

What is claimed is mostly there and what is settled mostly held, so that a short run comes far.
Stale holders, dead nodes and doubles come by themselves: what was once handed out stays in
reach for good.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import structs

from tests.conformance.acts import ALL
from tests.conformance.comparison import Comparison, Failed, Question
from tests.conformance.steps import (
    EVERY_PLACE,
    NODES_MAX,
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
from tests.stores.clock import START
from tests.stores.opening import Homes
from tickwork.core.model import (
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    NewMessage,
    QueueSettings,
    Scope,
    Send,
    Settlement,
    Tenant,
)

T = TypeVar("T")


class StoreMachine(RuleBasedStateMachine):
    """Every answer is compared; what all of them answered is kept for the next steps."""

    def __init__(self, homes: Homes) -> None:
        super().__init__()
        self._runner, self._stores = asyncio.Runner(), Comparison()
        self._numbers = count(1)
        self._schedule_id = self._new_id()
        self._sent: list[tuple[Place, NewMessage]] = []
        self._handed: list[Message] = []
        self._open: list[Message] = []
        """Of these, what was not settled yet; it need not be held any more."""
        self._nodes: list[UUID] = []
        self._runner.run(self._stores.open(homes))

    @initialize(many=several_messages)
    def begin(self, many: list[dict[str, Any]]) -> None:
        for name in ("one", "two"):
            self._ask(lambda store, name=name: store.tenants.put(SYSTEM, Tenant(id=name)))
        for place in (OWN_OF_ONE, OWN_OF_TWO, SHARED):
            self._put_queue(place, SETTINGS)
        self._join()
        for place in (OWN_OF_ONE, Place(ONE, "shared")):
            self.send(place, many, [], None)

    def teardown(self) -> None:
        try:
            for place in EVERY_PLACE:
                self._look(place)
        finally:
            self._runner.run(self._stores.close())
            self._runner.close()

    @rule(step=steps)
    def take(self, step: Step) -> None:
        """One rule for all steps: separate ones would be switched off at random."""
        getattr(self, step.act)(**step.how)

    # In

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
            self._ask(lambda store: store.messages.send(*place, messages[0]))
            self._sent += [] if bad else [(place, messages[0])]
        else:
            answer = self._ask(lambda store: store.messages.send_batch(*place, messages))
            assert isinstance(answer, Failed) == bool(bad)
            self._sent += [] if bad else [(place, message) for message in messages]

    # Handed out

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

    def claim_alone_or_for_all(self, place: Place, *, alone: bool) -> None:
        holder, place = self._node(0, alive=True), place if alone else SHARED
        request = ClaimRequest(queue=place.queue, holder=holder, limit=ALL, alone=alone)
        self._claim(place.scope, request)

    def extend(self, pick: int, lease_seconds: float) -> None:
        for message in self._some_handed([pick]):
            held = message.held
            self._ask(lambda store, held=held: store.messages.extend(SYSTEM, held, lease_seconds))

    # Done with

    def settle(
        self, chosen: list[int], fate: Fate, delay_seconds: float, error: str | None
    ) -> None:
        # Of doubles in one settlement any may win; with the lowest id first, the first does.
        messages = sorted(self._some_handed(chosen), key=lambda each: each.id)
        self._settle(
            SYSTEM,
            *(
                Ending(
                    held=message.held,
                    fate=fate,
                    delay_seconds=delay_seconds,
                    reason="given up" if fate is Fate.DEAD else None,
                    error=error,
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
                Ending(held=message.held, fate=fate, delay_seconds=3, reason="mixed")
                for message, fate in zip(messages, fates, strict=False)
            ),
        )

    def settle_and_send(self, pick: int, fate: Fate, queue: str, fields: dict[str, Any]) -> None:
        for message in self._some_handed([pick]):
            scope, following = Scope(message.tenant), self._new_message(fields)
            sends = (Send(queue, following),)
            answer = self._settle(scope, Ending(held=message.held, fate=fate, sends=sends))
            if not isinstance(answer, Failed):
                self._sent.append((Place(scope, queue), following))

    def settle_what_is_not_held(self, pick: int, fate: Fate, how: str) -> None:
        for message in self._some_handed([pick]):
            scope = Scope(message.tenant)
            stranger = TWO if scope == ONE else ONE
            forged = {
                "holder": structs.replace(message.held, holder=self._new_id()),
                "claim": structs.replace(message.held, claim=message.claim + 1_000),
                "tenant": structs.replace(message.held, tenant=str(stranger.tenant)),
                "scope": message.held,
            }[how]
            sends = (Send("shared", self._new_message({})),)
            ending = Ending(held=forged, fate=fate, reason="forged", sends=sends)
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
            self._put_queue(OWN_OF_TWO, SETTINGS)
        elif what == "settings":
            self._put_queue(OWN_OF_ONE, structs.replace(SETTINGS, max_retries=pick % 3))
        for at, message in self._some(self._sent, [pick] if what == "delete" else []):
            id_ = message.id
            self._ask(lambda store, at=at, id_=id_: store.messages.get(*at, id_))
            self._ask(lambda store, at=at, id_=id_: store.messages.delete(*at, id_))

    def live(self, pick: int, what: str) -> None:
        node = self._node(pick, alive=what == "join")
        if what == "beat":
            self._ask(lambda store: store.nodes.heartbeat(node, TTL_SECONDS))
        elif what == "leave":
            self._ask(lambda store: store.nodes.leave(node))
        elif what == "give back":
            known = [message.id for message in self._handed[-1 - pick : -1]]
            self._ask(lambda store: store.nodes.give_back_unknown(node, known))

    def die(self, seconds: float, *, reap: bool) -> None:
        """Nobody beats for so long; then, mostly, the reaper comes."""
        self._stores.clock.advance(seconds=seconds)
        if reap:
            self._ask(lambda store: store.reaper.reap(ALL))

    def kill(self, place: Place, *, alone: bool) -> None:
        """A node takes all it can get, and dies."""
        holder = self._join()
        request = ClaimRequest(queue=place.queue, holder=holder, limit=ALL, alone=alone)
        self._claim(place.scope, request)
        self.die(TTL_SECONDS, reap=True)

    def look(self, place: Place) -> None:
        self._look(place)
        self._ask(lambda store: store.nodes.list())

    def _look(self, place: Place) -> None:
        counts = self._ask(lambda store: store.queues.counts(*place))
        ready = self._ask(lambda store: store.messages.peek(*place, ALL))
        letters = self._ask(lambda store: store.messages.dead_letters(*place, ALL))
        assert (counts.ready, counts.dead) == (len(ready), len(letters))

    def _ask(self, question: Callable[..., Any]) -> Any:
        return self._runner.run(self._stores.ask(question))

    def _claim(self, scope: Scope, request: ClaimRequest) -> None:
        answer = self._ask(lambda store: store.messages.claim(scope, request))
        if not isinstance(answer, Failed):
            self._handed += answer
            self._open += answer

    def _settle(self, scope: Scope, *endings: Ending) -> Any:
        answer = self._ask(lambda store: store.messages.settle(scope, Settlement(endings)))
        if not isinstance(answer, Failed):
            ended = {ending.held for ending in endings}
            self._open = [message for message in self._open if message.held not in ended]
        return answer

    def _put_queue(self, place: Place, settings: QueueSettings) -> None:
        question: Question = lambda store: store.queues.put(*place, settings)  # noqa: E731
        self._runner.run(self._stores.put_queue(question))

    def _node(self, pick: int, *, alive: bool) -> UUID:
        """A node, dead or not; a living one joins if there is none."""
        nodes = self._ask(lambda store: store.nodes.list())
        living = [node.id for node in nodes if node.expires_at > self._stores.clock.now()]
        if alive and not living and len(nodes) < NODES_MAX:
            return self._join()
        if alive and living:
            chosen: UUID = living[pick % len(living)]
            return chosen
        return self._nodes[-1 - pick % len(self._nodes)]

    def _join(self) -> UUID:
        node_id = self._new_id()
        self._nodes.append(node_id)
        self._ask(
            lambda store: store.nodes.join(
                node_id, name="node", roles=["worker"], ttl_seconds=TTL_SECONDS
            )
        )
        return node_id

    def _some_handed(self, chosen: list[int]) -> list[Message]:
        """Some of what was handed out lately: mostly not settled, sometimes whatever it is."""
        if not self._open:
            self.claim(0, ALL, None, 0, alive=True)
        is_whatever = 0 in chosen or not self._open
        return self._some(self._handed if is_whatever else self._open, chosen)

    def _some(self, many: Sequence[T], chosen: list[int]) -> list[T]:
        """Some of the latest, if there are any."""
        return [many[-1 - pick % len(many)] for pick in chosen] if many else []

    def _new_id(self) -> UUID:
        """Unique, and not in the order of making: what sorts by id must not lean on that."""
        return UUID(int=(next(self._numbers) * 40_503 % 65_536 << 96) | 1)

    def _new_message(self, fields: dict[str, Any]) -> NewMessage:
        made: dict[str, Any] = {"id": self._new_id(), "body": b"%d" % next(self._numbers)}
        if "run" in fields:
            made |= {"schedule_id": self._schedule_id, "slot": START}
        return NewMessage(**made | fields)
