"""Base of the state machine: runs each operation on all stores and keeps their common results."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine

from tests.conformance.acts import ALL
from tests.conformance.comparison import Comparison, Failed, LetterQuestion, Question
from tests.conformance.state_machine_steps import BODIES, NODES_MAX, TTL_SECONDS, Place
from tests.stores.clock import START
from tests.stores.open_homes import Homes
from tickwork.core.model import (
    SYSTEM,
    ClaimRequest,
    Ending,
    Message,
    NewMessage,
    QueueSettings,
    Scope,
    Settlement,
)

T = TypeVar("T")


class StateMachineBase(RuleBasedStateMachine):
    """Compares the results of all stores and keeps them for the next steps."""

    def __init__(self, homes: Homes) -> None:
        super().__init__()
        self._runner, self._stores = asyncio.Runner(), Comparison()
        self._numbers = count(1)
        self._schedule_id = self._new_id()
        self._sent: list[tuple[Place, NewMessage]] = []
        self._handed: list[Message] = []
        self._open: list[Message] = []
        """Those that were not settled yet, although their claim may be lost."""
        self._nodes: list[UUID] = []
        self._queue_names: dict[UUID, str] = {}
        self._runner.run(self._stores.open(homes))

    def _ask(self, question: Callable[..., Any]) -> Any:
        return self._runner.run(self._stores.ask(question))

    def _ask_about_letters(
        self, place: Place, chosen: Sequence[int], question: LetterQuestion
    ) -> Any:
        return self._runner.run(self._stores.ask_about_letters(*place, chosen, question))

    def _claim(self, scope: Scope, request: ClaimRequest) -> None:
        answer = self._ask(lambda store: store.messages.claim(scope, request))
        if not isinstance(answer, Failed):
            self._handed += answer
            self._open += answer

    def _settle(self, scope: Scope, *endings: Ending) -> Any:
        answer = self._ask(lambda store: store.messages.settle(scope, Settlement(endings)))
        if not isinstance(answer, Failed):
            ended = {ending.claim for ending in endings}
            self._open = [message for message in self._open if message.current_claim not in ended]
        return answer

    def _put_queue(self, place: Place, settings: QueueSettings) -> None:
        question: Question = lambda store: store.queues.put(*place, settings)  # noqa: E731
        queue = self._runner.run(self._stores.ask_with_own_ids(question))
        self._queue_names[queue.id] = queue.name

    def _node(self, pick: int, *, alive: bool) -> UUID:
        """A node, living or dead; joins a new one if there is none."""
        nodes = self._ask(lambda store: store.nodes.list(SYSTEM))
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
                SYSTEM, node_id, name="node", roles=["worker"], ttl_seconds=TTL_SECONDS
            )
        )
        return node_id

    def _some_handed(self, chosen: list[int]) -> list[Message]:
        """Some recently claimed messages: mostly unsettled, sometimes any."""
        if not self._open:
            self._claim_from(0)
        is_whatever = 0 in chosen or not self._open
        return self._some(self._handed if is_whatever else self._open, chosen)

    def _claim_from(self, pick: int) -> None:
        """All messages of the queue of a recent send."""
        place = self._sent[-1 - pick % len(self._sent)][0]
        holder = self._node(0, alive=True)
        self._claim(place.scope, ClaimRequest(queue=place.queue, holder=holder, limit=ALL))

    def _some(self, many: Sequence[T], chosen: list[int]) -> list[T]:
        """Some of the latest, if there are any."""
        return [many[-1 - pick % len(many)] for pick in chosen] if many else []

    def _new_id(self) -> UUID:
        """Unique, and not in the order of creation: nothing may depend on the order of ids."""
        return UUID(int=(next(self._numbers) * 40_503 % 65_536 << 96) | 1)

    def _new_message(self, fields: dict[str, Any]) -> NewMessage:
        made: dict[str, Any] = {"id": self._new_id(), "body": b"%d" % next(self._numbers)}
        if "run" in fields:
            made |= {"schedule_id": self._schedule_id, "slot": START}
        made |= fields
        if "fills" in made:
            made["body"] = BODIES[made.pop("fills")]
        return NewMessage(**made)
