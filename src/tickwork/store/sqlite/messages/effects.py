"""What settling and the writers of effects share on SQLite. `core.effects` has the protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from tickwork.core.effects import Effect
from tickwork.store.shared.effects import E, EffectsOfKind
from tickwork.store.sqlite.engine.work import Transaction


class EffectWriter(EffectsOfKind[E]):
    """Writes effects in a transaction of the writer thread."""

    @classmethod
    def write_plain(
        cls, transaction: Transaction, rowids: Sequence[int], effects: Sequence[E]
    ) -> None:
        """Writes plain effects of claimed messages, given in the same order."""

    def record(self, transaction: Transaction) -> None:
        """Reads what needs the claims, before messages are removed."""

    def released(self, transaction: Transaction, released: Collection[int]) -> None:
        """Follows the release of messages."""

    def before_death(self, transaction: Transaction, dying: Collection[int]) -> None:
        """Precedes the dead letters of messages that are claimed."""

    def keep(self, transaction: Transaction, kept: Collection[int]) -> Mapping[int, bool]:  # noqa: ARG002
        """Records effects under claims that stay, if they are valid: which, and whether each is
        new."""
        return {}

    def write(self, transaction: Transaction, counted: Sequence[int]) -> None:
        """Writes the effects of endings that count, in their order."""


EffectWriters: TypeAlias = Mapping[type[Effect], type[EffectWriter[Any]]]
"""The writer of each kind of effect."""
