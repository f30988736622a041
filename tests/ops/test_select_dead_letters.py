"""A replay or discard concerns the dead letters that matched when it started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import WORK, counts, make_queue
from tests.ops.test_replay import ALL, make_dead_letters
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, Counts
from tickwork.errors import NotFound
from tickwork.ops import dead_letters
from tickwork.ops.context import Context
from tickwork.ops.dead_letters import (
    count_dead_letters,
    discard,
    first_dead_letters,
    replay,
    select_dead_letters,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", ["model", *KINDS], indirect=True)


async def test_a_later_dead_letter_is_not_discarded(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_dead_letters(store, 3)
    selected = await select_dead_letters(Context(store, DEFAULT), WORK, Selection(type="a"))
    assert selected.letters == 3
    clock.advance(seconds=1)
    await make_dead_letters(store, 2)
    assert await discard(Context(store, DEFAULT), WORK, selected.which) == 3
    assert await counts(store) == Counts(dead=2)


async def test_dead_letters_must_match_every_criterion(store: Store) -> None:
    await make_queue(store)
    await make_dead_letters(store, 3, kind="a")
    await make_dead_letters(store, 2, kind="b", error="why")
    first, *_ = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters

    async def number(limit: int | None = None, **which: Any) -> int:
        selected = await select_dead_letters(
            Context(store, DEFAULT), WORK, Selection(**which), limit=limit
        )
        return selected.letters

    assert await number() == 5
    assert await number(limit=2) == 2
    assert await number(type="a") == 3
    assert await number(fingerprint="why") == 2
    assert await number(reason="expired") == 0
    assert await number(type="a", fingerprint="why") == 0
    assert await number(ids=(first.id,)) == 1
    assert await number(ids=(first.id,), type="b") == 0
    assert await number(ids=()) == 0


async def test_the_first_dead_letters_are_found_however_many_it_has_to_look_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOKED_AT_MAX", 2)
    await make_queue(store)
    for kind in ("common", "rare") * 2:
        await make_dead_letters(store, 4 if kind == "common" else 1, kind=kind)
    every = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    rare = tuple(letter for letter in every if letter.type == "rare")
    assert len(rare) == 2
    for limit in (1, 2, 3):
        which = Selection(type="rare", limit=limit)
        found = await first_dead_letters(Context(store, DEFAULT), WORK, which)
        assert [letter.id for letter in found] == [letter.id for letter in rare[:limit]]
    behind = Selection(type="rare")
    found = await first_dead_letters(Context(store, DEFAULT), WORK, behind, after=rare[0].id)
    assert [letter.id for letter in found] == [letter.id for letter in rare[1:]]


async def test_what_was_counted_is_what_a_later_replay_takes(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 3, kind="a")
    await make_dead_letters(store, 2, kind="b")
    counted = await count_dead_letters(Context(store, DEFAULT), WORK, Selection(type="a"))
    assert (counted.dead_letters, counted.failed_before) == (3, clock.now())
    clock.advance(seconds=1)
    await make_dead_letters(store, 2, kind="a")
    which = Selection(type="a", failed_before=counted.failed_before)
    assert (await replay(Context(store, DEFAULT), WORK, which)).replayed == 3
    assert (await count_dead_letters(Context(store, DEFAULT), WORK, which)).dead_letters == 0
    assert (await count_dead_letters(Context(store, DEFAULT), WORK, Selection())).dead_letters == 4


@pytest.mark.parametrize("verb", [replay, discard, select_dead_letters])
async def test_ids_that_are_not_open_are_refused_before_anything_is_done(
    store: Store, verb: Callable[..., Awaitable[object]]
) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    await make_dead_letters(store, 2)
    first, second = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    await discard(Context(store, DEFAULT), WORK, Selection(ids=(second.id,)))
    stranger = new_id()
    asked = Selection(ids=(stranger, first.id, second.id, stranger))
    named = f"dead_{stranger.hex}, dead_{second.id.hex}"
    with pytest.raises(NotFound, match=f"letter {named} in queue {WORK}; nothing"):
        await verb(Context(store, DEFAULT), WORK, asked)
    with pytest.raises(NotFound, match=f"letter dead_{first.id.hex} in queue other; nothing"):
        await verb(Context(store, DEFAULT), "other", Selection(ids=(first.id,)))
    assert [
        letter.id for letter in (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    ] == [first.id]


async def test_a_group_shows_the_error_of_one_of_its_dead_letters(store: Store) -> None:
    await make_queue(store)
    heading = "Traceback (most recent call last):\n  File x\n"
    for number in (1, 2):
        await make_dead_letters(store, 1, error=f"{heading}ValueError: user {number}")
    (group,) = await dead_letters.group_dead_letters(Context(store, DEFAULT), WORK)
    assert (group.fingerprint, group.dead_letters) == ("ValueError: user <n>", 2)
    assert group.example == "ValueError: user 1"
