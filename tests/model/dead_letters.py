"""Dead letters in the model."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from tests.model.send import Arrivals
from tests.model.state import Now, Tables, letter_order
from tickwork.core.limits import check_body, check_limit, check_pace, check_selection
from tickwork.core.message.dead_letter import (
    DeadGroup,
    DeadLetterPage,
    Pace,
    Replayed,
    Resolution,
    Selection,
    StoredDeadLetter,
    newest_start,
    replay_of,
)
from tickwork.core.message.message_list import LOOKED_AT_MAX
from tickwork.core.model import ContentType, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id


class MemoryDeadLetters:
    """Messages that will not be delivered again unless they are replayed."""

    def __init__(self, tables: Tables, now: Now, arrivals: Arrivals) -> None:
        self._tables, self._now, self._arrivals = tables, now, arrivals

    async def list(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        check_selection(selection)
        letters = self._tables.open_letters(scope, self._tables.queue(scope, queue))
        begin = None if after is None else letter_order(await self.get(scope, after))
        found: list[StoredDeadLetter] = []
        looked_at = 0
        for letter in letters:
            if begin is not None and letter_order(letter) <= begin:
                continue
            if selection.failed_before is not None and letter.failed_at > selection.failed_before:
                break
            if _is_selected(letter, selection):
                if len(found) == selection.limit:
                    return DeadLetterPage(tuple(found), found[-1].id)
                found.append(letter)
            looked_at += selection.has_window
            if looked_at == looked_at_max:
                return DeadLetterPage(tuple(found), letter.id)
        return DeadLetterPage(tuple(found), None)

    async def newest(
        self,
        scope: Scope,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        check_selection(selection)
        start = newest_start(selection, None if after is None else await self.get(scope, after))
        letters = sorted(
            (
                letter
                for letter in self._tables.letters.values()
                if letter.resolution is None
                and scope.tenant in (None, letter.tenant)
                and letter_order(letter) < start
            ),
            key=letter_order,
            reverse=True,
        )
        window = looked_at_max if selection.has_window else selection.limit + 1
        selected = [letter for letter in letters[:window] if _is_selected(letter, selection)]
        chosen = tuple(selected[: selection.limit])
        end = letters[window - 1].id if len(letters) >= window else None
        return DeadLetterPage(chosen, chosen[-1].id if len(selected) > selection.limit else end)

    async def get(self, scope: Scope, dead_letter_id: UUID) -> StoredDeadLetter:
        letter = self._tables.letters.get(dead_letter_id)
        if letter is None or not (scope.is_system or scope.tenant == letter.tenant):
            raise NotFound("dead letter", dead_letter_id)
        return letter

    async def of_message(self, scope: Scope, message_id: UUID) -> StoredDeadLetter | None:
        for letter in reversed(self._tables.letters.values()):
            if letter.message_id == message_id:
                return letter if scope.tenant in (None, letter.tenant) else None
        return None

    async def groups(self, scope: Scope, queue: str, limit: int) -> tuple[DeadGroup, ...]:
        check_limit(limit)
        alike: dict[tuple[str, str, str | None], list[StoredDeadLetter]] = {}
        for letter in self._tables.open_letters(scope, self._tables.queue(scope, queue)):
            alike.setdefault((letter.reason, letter.fingerprint, letter.type), []).append(letter)
        groups = [
            DeadGroup(*what, len(same), same[0].failed_at, same[-1].failed_at)
            for what, same in alike.items()
        ]
        groups.sort(
            key=lambda group: (
                -group.dead_letters,
                group.reason,
                group.fingerprint,
                group.type or "",
            )
        )
        return tuple(groups[:limit])

    async def count(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)
        letters = self._tables.open_letters(scope, self._tables.queue(scope, queue))
        filters = structs.replace(selection, ids=None)
        return sum(_is_selected(letter, filters) for letter in letters)

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> StoredDeadLetter:
        check_body(body)
        letter = await self.get(scope, dead_letter_id)
        if letter.resolution is not None:
            raise Conflict(f"dead letter {dead_letter_id} is {letter.resolution}")
        edited = structs.replace(
            letter, body=body, content_type=content_type, edited_at=self._now()
        )
        self._tables.letters[dead_letter_id] = edited
        return edited

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        check_selection(selection)
        check_pace(pace, selection.limit)
        found = self._tables.queue(scope, queue)
        replayed: list[Replayed] = []
        with self._tables.transaction():
            for index, letter in enumerate(self._selected(scope, queue, selection)):
                delay_seconds = pace.first_after_seconds + index * pace.spacing_seconds
                anew = replay_of(letter, message_id=new_id(), delay_seconds=delay_seconds)
                self._arrivals.store(letter.tenant, found, anew)
                edited = letter.edited_at is not None
                self._resolve(letter, Resolution.FIXED if edited else Resolution.REPLAYED, anew.id)
                self._tables.tally(CounterName.REPLAYED, letter)
                replayed.append(Replayed(letter.id, anew.id))
            self._arrivals.check_backlogs({found.id} if replayed else ())
        return tuple(replayed)

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)
        letters = self._selected(scope, queue, selection)
        for letter in letters:
            self._resolve(letter, Resolution.DISCARDED, None)
            self._tables.tally(CounterName.DISCARDED, letter)
        return len(letters)

    def _selected(
        self, scope: Scope, queue: str, selection: Selection
    ) -> Sequence[StoredDeadLetter]:
        """The open dead letters that match all conditions, oldest first."""
        letters = self._tables.open_letters(scope, self._tables.queue(scope, queue))
        return [letter for letter in letters if _is_selected(letter, selection)][: selection.limit]

    def _resolve(
        self, letter: StoredDeadLetter, resolution: Resolution, replayed_as: UUID | None
    ) -> None:
        self._tables.letters[letter.id] = structs.replace(
            letter, resolution=resolution, resolved_at=self._now(), replayed_as=replayed_as
        )


def _is_selected(letter: StoredDeadLetter, selection: Selection) -> bool:
    return (
        (selection.ids is None or letter.id in selection.ids)
        and selection.reason in (None, letter.reason)
        and selection.fingerprint in (None, letter.fingerprint)
        and selection.type in (None, letter.type)
        and not (selection.no_type and letter.type is not None)
        and (selection.failed_before is None or letter.failed_at <= selection.failed_before)
    )


def _largest_first(group: DeadGroup) -> tuple[int, str, str, str]:
    return -group.dead_letters, group.reason, group.fingerprint, group.type or ""
