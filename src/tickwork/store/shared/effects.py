"""The effects of a settlement, by kind. `core.effects` has the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from tickwork.core.effects import Effect
from tickwork.core.model import Claim, Ending, Fate

E = TypeVar("E", bound=Effect)
W = TypeVar("W")


class Fenced(NamedTuple, Generic[E]):
    """An effect, the claim that fences it, and what becomes of the message."""

    claim: Claim
    effect: E
    fate: Fate = Fate.KEEP


class EffectsOfKind(Generic[E]):
    """The effects of one kind, by the index of their ending, which are written in one transaction.

    Base class of the writers of a store. A writer overrides the hooks that it needs; they are
    called in the order in which the store lists them. Endings are given by index.
    """

    def __init__(self, effects: Mapping[int, Fenced[E]]) -> None:
        self._effects = effects
        self.rank = next(iter(effects.values())).effect.RANK

    @classmethod
    def is_plain(cls, effect: E) -> bool:  # noqa: ARG003
        """Whether it can be written with plain acks."""
        return False

    def _of(self, indexes: Iterable[int]) -> list[Fenced[E]]:
        """The effects of the endings at these indexes."""
        return [self._effects[index] for index in indexes if index in self._effects]


def by_rank(writers: Mapping[type[Effect], W]) -> dict[type[Effect], W]:
    """The writers of kinds of effects, in the order in which they lock."""
    return {kind: writers[kind] for kind in sorted(writers, key=lambda kind: kind.RANK)}


def by_writer(
    writers: Mapping[type[Effect], W], endings: Sequence[Ending], indexes: Iterable[int]
) -> list[tuple[W, dict[int, Fenced[Any]]]]:
    """The writers that have something to write, in the given order, with the effects of the endings
    at these indexes."""
    effects: dict[type[Effect], dict[int, Fenced[Any]]] = {}
    for index in indexes:
        ending = endings[index]
        for effect in ending.effects:
            of_kind = effects.setdefault(type(effect), {})
            of_kind[index] = Fenced(ending.claim, effect, ending.fate)
    if not effects:
        return []
    unknown = effects.keys() - writers.keys()
    assert not unknown, f"the store has no writer for {unknown}"
    return [(writer, effects[kind]) for kind, writer in writers.items() if kind in effects]
