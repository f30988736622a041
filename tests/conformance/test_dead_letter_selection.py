"""Selections of dead letters by time and by id: no later ones, no resolved ones."""

from datetime import timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    WORK,
    counts,
    ids,
    kill_all,
    letters,
    make_queue,
    make_tenants,
    pull,
    send,
)
from tests.stores.clock import VirtualClock
from tickwork.core.message.dead_letter import Pace, Resolution, Selection, StoredDeadLetter
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def make_letters(
    store: Store, clock: VirtualClock, number: int = 4
) -> list[StoredDeadLetter]:
    """One dead letter a second, oldest first."""
    await make_queue(store)
    for _ in range(number):
        await send(store)
        await kill_all(store)
        clock.advance(seconds=1)
    return [*await letters(store)]


async def test_only_dead_letters_that_failed_before_a_time_are_listed(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_letters(store, clock)
    for number, letter in enumerate(made, 1):
        for later, expected in ((0, number), (0.5, number), (-0.000001, number - 1)):
            until = letter.failed_at + timedelta(seconds=later)
            found = (
                await store.dead_letters.list(DEFAULT, WORK, Selection(failed_before=until))
            ).letters
            assert [*found] == made[:expected]


async def test_failed_before_combines_with_other_conditions(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_letters(store, clock)
    until = made[2].failed_at
    for selection, expected in (
        (Selection(failed_before=until, limit=2), made[:2]),
        (Selection(failed_before=until, reason="x"), made[:3]),
        (Selection(failed_before=until, reason="y"), []),
        (Selection(failed_before=until, ids=(made[0].id, made[3].id)), made[:1]),
    ):
        assert [*(await store.dead_letters.list(DEFAULT, WORK, selection)).letters] == expected
    after = (
        await store.dead_letters.list(
            DEFAULT, WORK, Selection(failed_before=until), after=made[0].id
        )
    ).letters
    assert [*after] == made[1:3]


async def test_the_system_lists_dead_letters_of_all_tenants_before_a_time(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    until = clock.now()
    for scope in await make_tenants(store, "one", "two"):
        await send(store, scope=scope)
        await kill_all(store, scope=scope)
    clock.advance(seconds=1)
    await send(store)
    await kill_all(store)
    found = (await store.dead_letters.list(SYSTEM, WORK, Selection(failed_before=until))).letters
    assert sorted(letter.tenant for letter in found) == ["one", "two"]


async def test_a_replay_sends_dead_letters_that_failed_before_a_time(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_letters(store, clock)
    selection = Selection(failed_before=made[1].failed_at)
    replayed = await store.dead_letters.replay(DEFAULT, WORK, selection, Pace())
    assert [replay.dead_letter_id for replay in replayed] == [letter.id for letter in made[:2]]
    assert [*await letters(store)] == made[2:]
    assert await store.dead_letters.replay(DEFAULT, WORK, selection, Pace()) == ()


async def test_a_message_that_dies_again_is_not_replayed_by_the_same_selection(
    store: Store, clock: VirtualClock
) -> None:
    """Otherwise a replay in chunks would never finish."""
    made = await make_letters(store, clock)
    selection = Selection(failed_before=made[-1].failed_at, limit=2)
    rounds = 0
    while replayed := await store.dead_letters.replay(DEFAULT, WORK, selection, Pace()):
        rounds += 1
        assert len(replayed) == 2
        await kill_all(store)
        assert rounds <= len(made)
    assert rounds == 2
    assert len(await letters(store)) == len(made)


async def test_a_discard_resolves_dead_letters_that_failed_before_a_time(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_letters(store, clock)
    selection = Selection(failed_before=made[2].failed_at)
    assert await store.dead_letters.discard(DEFAULT, WORK, selection) == 3
    assert await store.dead_letters.discard(DEFAULT, WORK, selection) == 0
    assert [*await letters(store)] == made[3:]


@pytest.mark.parametrize("resolved_by", [Resolution.REPLAYED, Resolution.DISCARDED])
async def test_a_resolved_dead_letter_is_not_selected_by_its_id(
    store: Store, clock: VirtualClock, resolved_by: Resolution
) -> None:
    resolved, still_open, other = await make_letters(store, clock, 3)
    first = Selection(ids=(resolved.id,))
    if resolved_by is Resolution.DISCARDED:
        assert await store.dead_letters.discard(DEFAULT, WORK, first) == 1
    else:
        assert len(await store.dead_letters.replay(DEFAULT, WORK, first, Pace())) == 1
    sent = ids(await pull(store))
    both = Selection(ids=(resolved.id, still_open.id, new_id()), limit=ALL)
    assert (await store.dead_letters.list(DEFAULT, WORK, both)).letters == (still_open,)
    (replayed,) = await store.dead_letters.replay(DEFAULT, WORK, both, Pace())
    assert replayed.dead_letter_id == still_open.id
    assert ids(await pull(store)) == [replayed.message_id]
    assert replayed.message_id not in sent
    assert await store.dead_letters.discard(DEFAULT, WORK, both) == 0
    assert await letters(store) == (other,)
    kept = await store.dead_letters.get(DEFAULT, resolved.id)
    assert kept.resolution is resolved_by


async def test_letters_without_a_type_can_be_selected_apart_from_those_with_one(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    for kind in (None, "a", None, "b"):
        await send(store, type=kind)
        await kill_all(store)
        clock.advance(seconds=1)
    first, typed, second, other = await letters(store)
    without = Selection(no_type=True, reason=first.reason, fingerprint=first.fingerprint)
    assert (await store.dead_letters.list(DEFAULT, WORK, without)).letters == (first, second)
    assert (await store.dead_letters.list(SYSTEM, WORK, without)).letters == (first, second)
    named = Selection(no_type=True, ids=(typed.id, second.id))
    assert (await store.dead_letters.list(DEFAULT, WORK, named)).letters == (second,)
    (replayed,) = await store.dead_letters.replay(DEFAULT, WORK, named, Pace())
    assert replayed.dead_letter_id == second.id
    assert await store.dead_letters.discard(DEFAULT, WORK, without) == 1
    assert await letters(store) == (typed, other)
    with pytest.raises(InvalidInput, match="no_type: excludes type; give one of them"):
        await store.dead_letters.list(DEFAULT, WORK, Selection(no_type=True, type="a"))


async def test_the_count_is_that_of_the_list(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, scope=SYSTEM)
    (stranger,) = await make_tenants(store, "stranger")
    for number in range(6):
        await send(store, type="a" if number % 2 else None)
        await kill_all(store)
        await send(store, scope=stranger)
        await kill_all(store, scope=stranger)
        clock.advance(seconds=1)
    made = await letters(store)
    await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=(made[0].id,)))
    until = made[3].failed_at
    for selection, expected in (
        (Selection(), 5),
        (Selection(limit=1), 5),
        (Selection(type="a"), 3),
        (Selection(no_type=True), 2),
        (Selection(no_type=True, failed_before=until), 1),
        (Selection(failed_before=until), 3),
        (Selection(reason=made[0].reason, fingerprint=made[0].fingerprint), 5),
        (Selection(reason="other"), 0),
        (Selection(fingerprint="other"), 0),
        (Selection(type="nul\0"), 0),
    ):
        assert await store.dead_letters.count(DEFAULT, WORK, selection) == expected, selection
        whole = structs.replace(selection, limit=ALL)
        listed = (await store.dead_letters.list(DEFAULT, WORK, whole)).letters
        assert len(listed) == expected, selection
    assert await store.dead_letters.count(SYSTEM, WORK, Selection()) == 11


async def test_ids_of_another_queue_or_tenant_are_not_selected(
    store: Store, clock: VirtualClock
) -> None:
    (letter,) = await make_letters(store, clock, 1)
    await make_queue(store, "other")
    (stranger,) = await make_tenants(store, "stranger")
    await make_queue(store, WORK, scope=stranger)
    selection = Selection(ids=(letter.id,))
    for scope, queue in ((DEFAULT, "other"), (stranger, WORK)):
        assert (await store.dead_letters.list(scope, queue, selection)).letters == ()
        assert await store.dead_letters.replay(scope, queue, selection, Pace()) == ()
        assert await store.dead_letters.discard(scope, queue, selection) == 0
    assert await counts(store) == Counts(dead=1)
