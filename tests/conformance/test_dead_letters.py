"""Dead letters: listed, grouped, edited and discarded."""

from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    counts,
    dead,
    kill,
    kill_all,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.dead_letter import (
    DeadGroup,
    Pace,
    Resolution,
    Selection,
    StoredDeadLetter,
)
from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import (
    DEFAULT,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    SYSTEM,
    ContentType,
    Counts,
    Reaped,
    Scope,
)
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def several(store: Store, clock: VirtualClock, number: int) -> list[StoredDeadLetter]:
    """Dead letters of different ages, oldest first."""
    for _ in range(number):
        await send(store)
        await kill_all(store)
        clock.advance(seconds=1)
    return [*await letters(store)]


async def test_a_dead_letter_has_all_fields_of_its_message(store: Store) -> None:
    await make_queue(store)
    sent = await send(store, type="paid", key="a", body=b"[1]")
    (letter,) = await kill_all(store, error="ValueError: order 4711 is unknown")
    assert letter == await store.dead_letters.get(DEFAULT, letter.id)
    assert (letter.message_id, letter.type, letter.key) == (sent.id, "paid", "a")
    assert letter.fingerprint == fingerprint("ValueError: order 12 is unknown")
    assert (letter.resolution, letter.edited_at, letter.replayed_as) == (None, None, None)


async def test_a_dead_letter_without_an_error_has_the_messages_last_error(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, retry(await pull_one(store), error="busy"))
    (letter,) = await kill_all(store)
    assert (letter.error, letter.fingerprint) == ("busy", "")


@pytest.mark.parametrize("max_retries", [0, 1, 3])
async def test_a_message_is_dead_after_its_maximum_of_expired_leases(
    store: Store, clock: VirtualClock, max_retries: int
) -> None:
    await make_queue(store, max_retries=max_retries)
    await send(store)
    for attempt in range(max_retries + 1):
        assert (await pull_one(store, lease_seconds=1)).attempts == attempt
        clock.advance(seconds=1)
        reaped = await store.reaper.reap(SYSTEM, ALL)
        is_last = attempt == max_retries
        assert reaped == Reaped(released=not is_last, dead=is_last)
    assert await pull(store) == ()
    (letter,) = await letters(store)
    assert (letter.reason, letter.attempts) == (REASON_MAX_RETRIES, max_retries + 1)


async def test_dead_letters_are_listed_oldest_first_in_pages(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 10)
    for message in await pull(store):
        await kill(store, message)
        clock.advance(seconds=message.id.int % 2)
    everything = await letters(store)
    assert [*everything] == sorted(everything, key=lambda letter: (letter.failed_at, letter.id))
    found: list[StoredDeadLetter] = []
    after = None
    for size in (3, 3, 3, 1):
        page = await store.dead_letters.list(DEFAULT, WORK, Selection(limit=3), after=after)
        assert len(page.letters) == size
        found += page.letters
        after = page.next
    assert (found, after) == ([*everything], None)


async def test_a_page_of_few_matches_looks_at_some_dead_letters_and_goes_on_behind_them(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    for number in range(9):
        await send(store, type="rare" if number in (3, 7) else "common")
        await kill_all(store, reason="timeout", error="no route")
        clock.advance(seconds=number % 2)
    everything = [*await letters(store)]
    (third, seventh) = rare = [letter for letter in everything if letter.type == "rare"]

    async def pages(scope: Scope, **fields: Any) -> list[list[StoredDeadLetter]]:
        found, after = list[list[StoredDeadLetter]](), None
        while True:
            page = await store.dead_letters.list(
                scope, WORK, Selection(**fields), after=after, looked_at_max=2
            )
            found.append([*page.letters])
            after = page.next
            if after is None:
                return found

    windows = [everything[start : start + 2] for start in range(0, 9, 2)]
    few = [[letter for letter in window if letter in rare] for window in windows]
    for scope in (DEFAULT, SYSTEM):
        assert await pages(scope, type="rare") == few
        assert await pages(scope, type="rare", reason="timeout", limit=1) == few
        for name in ("reason", "fingerprint", "type"):
            assert await pages(scope, **{name: "none"}) == [[]] * 5
        one_by_one = [[letter] for letter in everything]
        assert await pages(scope, fingerprint=fingerprint("no route"), limit=1) == one_by_one
        until = everything[5].failed_at
        assert await pages(scope, type="rare", failed_before=until) == [*few[:3], []]
        # Without a filter, and by id, a page is full.
        assert await pages(scope) == [everything]
        assert await pages(scope, ids=(seventh.id, third.id), type="rare") == [rare]


async def test_paging_continues_after_a_dead_letter_that_was_resolved_meanwhile(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first, second, third = await several(store, clock, 3)
    await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=(second.id,)))
    rest = (await store.dead_letters.list(DEFAULT, WORK, Selection(), after=second.id)).letters
    assert rest == (third,)
    with pytest.raises(NotFound):
        await store.dead_letters.list(DEFAULT, WORK, Selection(), after=new_id())
    assert await letters(store) == (first, third)


async def test_a_selection_matches_all_its_conditions(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    for reason, error, type_ in (
        ("timeout", "after 3 s", "paid"),
        ("timeout", "after 4 s", "sent"),
        ("timeout", "no route", "paid"),
        ("broken", "after 5 s", "paid"),
        ("broken", None, None),
    ):
        await send(store, type=type_)
        await kill_all(store, reason=reason, error=error)
        clock.advance(seconds=1)
    first, second, third, fourth, fifth = await letters(store)
    alike = fingerprint("after 7 s")

    async def found(**fields: object) -> list[StoredDeadLetter]:
        return [*(await store.dead_letters.list(DEFAULT, WORK, Selection(**fields))).letters]  # type: ignore[arg-type]

    assert await found(reason="timeout") == [first, second, third]
    assert await found(fingerprint=alike) == [first, second, fourth]
    assert await found(type="paid") == [first, third, fourth]
    assert await found(fingerprint="") == [fifth]
    assert await found(reason="timeout", type="paid", limit=1) == [first]
    assert await found(reason="broken", fingerprint=alike) == [fourth]
    assert await found(ids=(fourth.id, second.id, new_id())) == [second, fourth]
    assert await found(ids=(fourth.id, second.id), reason="broken") == [fourth]
    assert await found(ids=()) == []
    for nobodys in ("nobody's", "ü", "a\0b", "a\ud800b", ""):
        assert await found(type=nobodys) == []
        assert await found(reason=nobodys) == []
        assert await found(fingerprint=nobodys or "-") == []


async def test_dead_letters_with_the_same_error_are_one_group(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    for number in range(5):
        await send(store, type="paid" if number < 4 else None)
        await kill_all(store, reason="timeout", error=f"no answer after {number} s")
        clock.advance(seconds=1)
    for reason, error in (("expired", None), ("broken", "boom"), ("broken", "ouch")):
        await send(store)
        await kill_all(store, reason=reason, error=error)
    (first, *_, last) = [letter for letter in await letters(store) if letter.type == "paid"]
    groups = await store.dead_letters.groups(DEFAULT, WORK, ALL)
    alike = fingerprint("no answer after 7 s")
    assert groups[0] == DeadGroup("timeout", alike, "paid", 4, first.failed_at, last.failed_at)
    assert [
        (group.reason, group.fingerprint, group.type, group.dead_letters) for group in groups[1:]
    ] == [
        ("broken", "boom", None, 1),
        ("broken", "ouch", None, 1),
        ("expired", "", None, 1),
        ("timeout", alike, None, 1),
    ]
    assert await store.dead_letters.groups(DEFAULT, WORK, 2) == groups[:2]
    await store.dead_letters.discard(DEFAULT, WORK, Selection(type="paid"))
    assert await store.dead_letters.groups(DEFAULT, WORK, ALL) == groups[1:]


async def test_an_open_dead_letter_can_be_edited(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, body=b"{}")
    (letter,) = await kill_all(store)
    clock.advance(seconds=5)
    edited = await store.dead_letters.edit(DEFAULT, letter.id, b"better", ContentType.TEXT)
    assert (edited.body, edited.content_type) == (b"better", ContentType.TEXT)
    assert (edited.edited_at, edited.failed_at) == (clock.now(), letter.failed_at)
    assert await letters(store) == (edited,)
    await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    message = await pull_one(store)
    assert (message.body, message.content_type) == (b"better", ContentType.TEXT)
    fixed = await store.dead_letters.get(DEFAULT, letter.id)
    assert (fixed.resolution, fixed.replayed_as) == (Resolution.FIXED, message.id)


async def test_a_resolved_dead_letter_cannot_be_edited(store: Store) -> None:
    await make_queue(store)
    await send(store)
    (letter,) = await kill_all(store)
    await store.dead_letters.discard(DEFAULT, WORK, Selection())
    with pytest.raises(Conflict):
        await store.dead_letters.edit(DEFAULT, letter.id, b"late", ContentType.JSON)
    with pytest.raises(NotFound):
        await store.dead_letters.edit(DEFAULT, new_id(), b"nowhere", ContentType.JSON)
    assert (await store.dead_letters.get(DEFAULT, letter.id)).body == letter.body


async def test_an_edited_body_must_stay_within_the_body_limit(store: Store) -> None:
    await make_queue(store)
    await send(store)
    (letter,) = await kill_all(store)
    with pytest.raises(InvalidInput, match="body"):
        await store.dead_letters.edit(DEFAULT, letter.id, b"x" * 128_001, ContentType.BYTES)
    assert await letters(store) == (letter,)


async def test_a_discarded_dead_letter_is_kept_but_not_listed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first, second, third = await several(store, clock, 3)
    assert await store.dead_letters.discard(DEFAULT, WORK, Selection(limit=2)) == 2
    assert await letters(store) == (third,)
    assert await counts(store) == Counts(dead=1)
    for letter in (first, second):
        kept = await store.dead_letters.get(DEFAULT, letter.id)
        assert (kept.resolution, kept.resolved_at) == (Resolution.DISCARDED, clock.now())
        assert kept.replayed_as is None
    every = (first.id, second.id, third.id)
    assert await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=every)) == 1
    assert await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=every)) == 0
    assert await counts(store) == Counts()


async def test_a_queue_with_open_dead_letters_is_not_deleted(store: Store) -> None:
    await make_queue(store)
    await send(store)
    (letter,) = await kill_all(store)
    with pytest.raises(Conflict):
        await store.queues.delete(DEFAULT, WORK)
    await store.dead_letters.discard(DEFAULT, WORK, Selection())
    await store.queues.delete(DEFAULT, WORK)
    assert (await store.dead_letters.get(DEFAULT, letter.id)).resolution is not None


async def test_dead_letters_belong_to_one_queue(store: Store) -> None:
    for queue in (WORK, "other"):
        await make_queue(store, queue)
        await send(store, queue=queue)
        await kill_all(store, queue=queue)
    (mine,), (others,) = await letters(store), await letters(store, "other")
    assert await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=(others.id,))) == 0
    pace, both = Pace(), Selection(ids=(mine.id, others.id))
    replayed = await store.dead_letters.replay(DEFAULT, WORK, both, pace)
    assert [replay.dead_letter_id for replay in replayed] == [mine.id]
    assert await letters(store, "other") == (others,)


async def test_a_tenant_sees_only_its_own_dead_letters(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    owner, stranger = await make_tenants(store, "owner", "stranger")
    await send(store, scope=owner)
    (letter,) = await kill_all(store, scope=owner)
    reach = Selection(ids=(letter.id,))
    assert await letters(store, scope=stranger) == ()
    assert await store.dead_letters.groups(stranger, WORK, ALL) == ()
    assert await store.dead_letters.replay(stranger, WORK, reach, Pace()) == ()
    assert await store.dead_letters.discard(stranger, WORK, reach) == 0
    for act in (
        store.dead_letters.get(stranger, letter.id),
        store.dead_letters.edit(stranger, letter.id, b"mine", ContentType.JSON),
        store.dead_letters.list(stranger, WORK, Selection(), after=letter.id),
    ):
        with pytest.raises(NotFound):
            await act
    for scope in (owner, SYSTEM):
        assert await store.dead_letters.get(scope, letter.id) == letter
        assert await store.dead_letters.of_message(scope, letter.message_id) == letter
        assert await letters(store, scope=scope) == (letter,)
    for scope in (stranger, Scope("\ud800")):
        assert await store.dead_letters.of_message(scope, letter.message_id) is None
    assert await store.dead_letters.of_message(owner, letter.id) is None
    await store.dead_letters.discard(owner, WORK, reach)
    resolved = await store.dead_letters.of_message(owner, letter.message_id)
    assert resolved is not None
    assert (resolved.id, resolved.resolution) == (letter.id, Resolution.DISCARDED)


async def test_the_system_replays_dead_letters_under_their_own_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "one", "two"):
        await send(store, scope=scope)
        await kill_all(store, scope=scope)
    assert len(await store.dead_letters.replay(SYSTEM, WORK, Selection(), Pace())) == 2
    for name in ("one", "two"):
        (message,) = await pull(store, scope=Scope(name))
        assert message.tenant == name


async def test_expired_messages_become_dead_letters(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, type="paid", expires_after_seconds=1)
    clock.advance(seconds=1)
    await store.reaper.reap(SYSTEM, ALL)
    (group,) = await store.dead_letters.groups(DEFAULT, WORK, ALL)
    assert (group.reason, group.fingerprint, group.type) == (REASON_EXPIRED, "", "paid")
    await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    clock.advance(seconds=3_600)
    message = await pull_one(store)
    assert message.type == "paid"
    assert not (await settle(store, ack(message))).refused


async def test_a_replayed_message_that_dies_again_is_a_new_dead_letter(store: Store) -> None:
    await make_queue(store)
    await send(store)
    (first,) = await kill_all(store)
    await store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
    message = await pull_one(store)
    await settle(store, dead(message, reason="again"))
    (second,) = await letters(store)
    assert second.id != first.id
    assert (second.message_id, second.causation_id) == (
        message.id,
        public_id(Prefix.MESSAGE, first.message_id),
    )


async def test_the_newest_dead_letters_of_all_queues_are_listed_first(
    store: Store, clock: VirtualClock
) -> None:
    one, other = await make_tenants(store, "one", "other")
    expected: list[tuple[Scope, Any]] = []
    for number in range(7):
        scope, queue = (one, other, one)[number % 3], f"q{number % 2}"
        await make_queue(store, queue, scope=scope)
        await send(store, queue=queue, scope=scope, type=f"t{number % 2}")
        made = await kill_all(store, queue=queue, scope=scope, reason="x" if number else "y")
        expected.insert(0, (scope, made[-1]))
        clock.advance(seconds=number % 2)  # Some have the same age.
    own = [letter.id for scope, letter in expected if scope == one]
    own = sorted(own, key=[letter.id for _, letter in expected].index)

    async def pages(scope: Scope, limit: int, **filters: Any) -> list[Any]:
        found, after = list[Any](), None
        for _ in range(20):
            which = Selection(limit=limit, **filters)
            page = await store.dead_letters.newest(scope, which, after=after, looked_at_max=2)
            found += page.letters
            after = page.next
            if after is None:
                return found
        raise AssertionError("it has no end")

    everything = await pages(SYSTEM, 100)
    in_order = sorted(everything, key=lambda letter: (letter.failed_at, letter.id), reverse=True)
    assert everything == in_order
    assert {letter.id for letter in everything} == {letter.id for _, letter in expected}
    for limit in (1, 2, 100):
        assert {letter.id for letter in await pages(one, limit)} == set(own)
        assert await pages(SYSTEM, limit) == everything
        chosen = [letter for letter in everything if letter.type == "t1"]
        assert await pages(SYSTEM, limit, type="t1") == chosen
    middle = everything[3].failed_at
    before = [letter for letter in everything if letter.failed_at <= middle]
    assert await pages(SYSTEM, 2, failed_before=middle) == before
    assert await pages(SYSTEM, 2, reason="y") == [everything[-1]]
    await store.dead_letters.discard(one, "q0", Selection(limit=ALL))
    assert all(letter.resolution is None for letter in await pages(SYSTEM, 100))
    with pytest.raises(NotFound):
        await store.dead_letters.newest(one, Selection(limit=1), after=new_id())
