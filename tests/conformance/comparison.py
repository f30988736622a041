"""Runs the same operation on several stores and compares their results.

The comparison leaves out what is arbitrary: ids that a store generates and the order of unordered
results. Everything else must be equal, errors by their code. Ids that appear in later results, of
queues and of replayed messages, are made equal: during such an operation ids come from a fixed
sequence. Each store has its own id for a dead letter; here it is the index among all open ones.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch
from uuid import UUID

from msgspec import structs

from tests.conformance.acts import ALL
from tests.stores.clock import VirtualClock
from tests.stores.home import Home, Kind
from tests.stores.open_homes import Homes
from tickwork.core.message.dead_letter import Replayed, Selection, StoredDeadLetter
from tickwork.core.message.system_events import SYSTEM_SOURCE
from tickwork.core.model import Message, Pruned, Reaped, Scope
from tickwork.core.schedule.firing import FiringRecord
from tickwork.errors import InvalidInput, TickworkError
from tickwork.store.contract import Store

KINDS: tuple[Kind, ...] = ("model", "sqlite", "postgres")

Question = Callable[[Store], Awaitable[Any]]
LetterQuestion = Callable[[Store, tuple[UUID, ...]], Awaitable[Any]]

Told = TypeVar("Told", Message, StoredDeadLetter)

_LETTER_ID = r'("dead_letter_id":)"[^"]*"'

NOBODY = UUID(int=0)
"""Replaces an id that a store generated itself."""


class Failed(NamedTuple):
    """A result that is an error."""

    code: str
    fields: tuple[str, ...] = ()


class _Tested:
    """A store and its home."""

    def __init__(self, home: Home, store: Store) -> None:
        self.home, self.store = home, store


class Comparison:
    """Stores of every kind under one clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._tested: list[_Tested] = []
        self._homes = AsyncExitStack()
        self._sequences = count(1)

    async def open(self, homes: Homes) -> None:
        for kind in KINDS:
            home = await self._homes.enter_async_context(homes.take(kind))
            self._tested.append(_Tested(home, await home.open(self.clock)))

    async def close(self) -> None:
        for tested in self._tested:
            await tested.store.close()
        await self._homes.aclose()

    async def crash(self) -> None:
        """Kills all stores and opens them again on their databases."""
        for tested in self._tested:
            await tested.home.crash(tested.store)
            tested.store = await tested.home.open(self.clock)

    async def ask(self, question: Question) -> Any:
        """The result of all stores; fails if they differ."""
        return self._agreed([await _answer(question(tested.store)) for tested in self._tested])

    async def ask_with_own_ids(self, question: Question) -> Any:
        """The same, with equal generated ids on every store."""
        first, answers = next(self._sequences), []
        for tested in self._tested:
            with _ids_from(first):
                answers.append(await _answer(question(tested.store)))
        return self._agreed(answers)

    async def ask_about_letters(
        self, scope: Scope, queue: str, chosen: Sequence[int], question: LetterQuestion
    ) -> Any:
        """Runs an operation on some open dead letters of a queue, no two of the same age: only the
        age orders them."""
        first, answers = next(self._sequences), []
        for tested in self._tested:
            found = (
                await tested.store.dead_letters.list(scope, queue, Selection(limit=ALL))
            ).letters
            letters = sorted(found, key=_letter_order)
            picked = [letters[-1 - pick % len(letters)] for pick in chosen if letters]
            by_age = {letter.failed_at: letter.id for letter in picked}
            with _ids_from(first):
                answers.append(await _answer(question(tested.store, tuple(by_age.values()))))
        return self._agreed(answers)

    def _agreed(self, answers: Sequence[Any]) -> Any:
        for tested, answer in zip(self._tested, answers, strict=True):
            said, expected = _comparable(answer), _comparable(answers[0])
            kind, first_kind = tested.home.kind, self._tested[0].home.kind
            assert said == expected, f"{kind} says\n{said}\nwhere {first_kind} says\n{expected}"
        return answers[0]


@contextmanager
def _ids_from(first: int) -> Iterator[None]:
    numbers = count(1)

    def next_id() -> UUID:
        return UUID(int=first << 64 | next(numbers))

    with patch("tickwork.store.ids.uuid7", next_id):
        yield


async def _answer(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except InvalidInput as error:
        return Failed(error.code, tuple(fault.field for fault in error.errors))
    except TickworkError as error:
        return Failed(error.code)


def _comparable(answer: Any) -> Any:
    if isinstance(answer, Reaped):
        return structs.replace(answer, nodes=tuple(sorted(answer.nodes)))
    if isinstance(answer, Pruned):
        # PostgreSQL drops firings by the day, up to a day later than row by row.
        return structs.replace(answer, receipts=0, firings=0)
    if isinstance(answer, StoredDeadLetter):
        return structs.replace(_without_letter(answer), id=NOBODY)
    if isinstance(answer, FiringRecord):
        return structs.replace(answer, id=NOBODY)
    if isinstance(answer, Message):
        return _without_letter(answer)
    if isinstance(answer, Replayed):
        return answer.message_id
    if not isinstance(answer, tuple) or not answer:
        return answer
    if isinstance(answer[0], Message):
        return _by_lane(answer)
    several = [_comparable(record) for record in answer]
    if isinstance(answer[0], StoredDeadLetter):
        return sorted(several, key=_letter_order)
    if isinstance(answer[0], FiringRecord):
        return sorted(several, key=lambda firing: (firing.finished_at, firing.slot, firing.run))
    return several


def _letter_order(letter: StoredDeadLetter) -> tuple[object, ...]:
    return letter.failed_at, letter.tenant, letter.message_id, repr(letter.error), letter.attempts


def _by_lane(messages: Sequence[Message]) -> dict[tuple[str, int], list[Message]]:
    """Order is only defined within one tenant and priority."""
    lanes: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        lane = lanes.setdefault((message.tenant, message.priority), [])
        lane.append(_without_letter(message))
    return lanes


def _without_letter(told: Told) -> Told:
    """A dead-letter event contains the dead letter's id, which each store generates itself; so does
    a message of a dead-letter queue."""
    if told.death is not None:
        told = structs.replace(told, death=re.sub(_LETTER_ID, r'\1""', told.death))
    if told.source != SYSTEM_SOURCE:
        return told
    return structs.replace(told, body=re.sub(_LETTER_ID.encode(), rb'\1""', told.body))
