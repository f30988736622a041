"""The same question to several stores, and whether they say the same.

Contract: what an answer says by chance is left out of the comparison (ids that a store made
itself, the order of what has no order); everything else must be equal, errors by their code.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tests.stores.clock import VirtualClock
from tests.stores.home import Home, Kind
from tests.stores.opening import Homes
from tickwork.core.model import DeadLetter, Message, Queue, Reaped
from tickwork.errors import InvalidInput, TickworkError
from tickwork.store.contract import Store

KINDS: tuple[Kind, ...] = ("model", "sqlite", "postgres")

Question = Callable[[Store], Awaitable[Any]]


class Failed(NamedTuple):
    """An answer that is an error."""

    code: str
    fields: tuple[str, ...] = ()


class _Tested:
    """A store, its home, and the names of the queues in it."""

    def __init__(self, home: Home, store: Store) -> None:
        self.home, self.store = home, store
        self.queues: dict[UUID, UUID] = {}


class Comparison:
    """Stores of every kind under one clock, asked the same."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._tested: list[_Tested] = []
        self._homes = AsyncExitStack()

    async def open(self, homes: Homes) -> None:
        for kind in KINDS:
            home = await self._homes.enter_async_context(homes.take(kind))
            self._tested.append(_Tested(home, await home.open(self.clock)))

    async def close(self) -> None:
        for each in self._tested:
            await each.store.close()
        await self._homes.aclose()

    async def crash(self) -> None:
        """All of them are killed, and opened again on what is left."""
        for each in self._tested:
            await each.home.crash(each.store)
            each.store = await each.home.open(self.clock)

    async def put_queue(self, question: Question) -> None:
        """Makes a queue everywhere; from now on it has one id in every answer."""
        queues: list[Queue] = [await question(each.store) for each in self._tested]
        for each, queue in zip(self._tested, queues, strict=True):
            each.queues[queue.id] = queues[0].id
        self._compare([structs.replace(queue, id=queues[0].id) for queue in queues])

    async def ask(self, question: Question) -> Any:
        """What all of them answer; fails if they do not agree."""
        answers = [_told(await _answer(each.store, question), each) for each in self._tested]
        self._compare([_comparable(answer) for answer in answers])
        return answers[0]

    def _compare(self, answers: Sequence[object]) -> None:
        for each, answer in zip(self._tested, answers, strict=True):
            assert answer == answers[0], (
                f"{each.home.kind} says\n{answer}\nwhere {self._tested[0].home.kind} says\n"
                f"{answers[0]}"
            )


async def _answer(store: Store, question: Question) -> Any:
    try:
        return await question(store)
    except InvalidInput as error:
        return Failed(error.code, tuple(fault.field for fault in error.errors))
    except TickworkError as error:
        return Failed(error.code)


def _told(answer: Any, told_by: _Tested) -> Any:
    """An answer with the ids that are the same everywhere."""
    if isinstance(answer, Message | DeadLetter):
        return structs.replace(answer, queue_id=told_by.queues[answer.queue_id])
    if isinstance(answer, tuple) and not isinstance(answer, Failed):
        return tuple(_told(each, told_by) for each in answer)
    return answer


def _comparable(answer: Any) -> Any:
    if isinstance(answer, Reaped):
        return structs.replace(answer, nodes=tuple(sorted(answer.nodes)))
    if isinstance(answer, tuple) and answer and isinstance(answer[0], DeadLetter):
        letters = [structs.replace(letter, id=letter.message_id) for letter in answer]
        return sorted(letters, key=lambda letter: (letter.failed_at, letter.tenant, letter.id))
    if isinstance(answer, tuple) and answer and isinstance(answer[0], Message):
        return _by_lane(answer)
    return answer


def _by_lane(messages: Sequence[Message]) -> dict[tuple[str, int], list[Message]]:
    """Only within a lane there is an order."""
    lanes: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        lanes.setdefault((message.tenant, message.priority), []).append(message)
    return lanes
