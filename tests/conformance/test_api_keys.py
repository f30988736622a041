"""API keys: create, find, list, rotate, revoke, and when one was last used."""

from datetime import timedelta

import pytest

from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.access import Permission
from tickwork.core.api_key import LAST_USED_SECONDS, ApiKey, KeyRecord, NewApiKey
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

OTHER = Scope("other")
HASH, NEXT_HASH, THIRD_HASH = b"1" * 32, b"2" * 32, b"3" * 32


def new_key(key_id: str = "k1", **fields: object) -> NewApiKey:
    given = {"name": "ci", "scopes": (Permission.READ, Permission.SEND), "secret_hash": HASH}
    return NewApiKey(id=key_id, **given | fields)  # type: ignore[arg-type]


async def found(store: Store, key_id: str = "k1") -> KeyRecord:
    record = await store.keys.find(SYSTEM, key_id)
    assert record is not None
    return record


async def test_a_key_is_stored_as_created(store: Store, clock: VirtualClock) -> None:
    now = await store.now()
    until = now + timedelta(days=1)
    made = await store.keys.create(DEFAULT, new_key(owner="ada", expires_at=until))
    assert made == ApiKey(
        id="k1",
        tenant="default",
        name="ci",
        scopes=(Permission.READ, Permission.SEND),
        owner="ada",
        created_at=now,
        expires_at=until,
        last_used_at=None,
        revoked_at=None,
        previous_until=None,
    )
    assert await store.keys.get(DEFAULT, "k1") == made
    clock.advance(seconds=5)
    assert await found(store) == KeyRecord(
        key=made,
        secret_hash=HASH,
        previous_hash=None,
        is_suspended=False,
        read_at=now + timedelta(seconds=5),
    )


async def test_an_id_names_one_key_of_all_tenants(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    await store.keys.create(DEFAULT, new_key())
    for scope in (DEFAULT, OTHER):
        with pytest.raises(Conflict):
            await store.keys.create(scope, new_key(secret_hash=NEXT_HASH))
    assert (await found(store)).secret_hash == HASH


async def test_a_key_needs_a_tenant(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.keys.create(Scope("nobody"), new_key())


async def test_a_tenant_reaches_only_its_own_keys(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    mine = await store.keys.create(DEFAULT, new_key("a"))
    theirs = await store.keys.create(OTHER, new_key("b"))
    assert await store.keys.list(DEFAULT, 10) == (mine,)
    assert await store.keys.list(SYSTEM, 10) == (mine, theirs)
    for use in (
        store.keys.get(DEFAULT, "b"),
        store.keys.revoke(DEFAULT, "b"),
        store.keys.rotate(DEFAULT, "b", NEXT_HASH, keep_seconds=0),
    ):
        with pytest.raises(NotFound):
            await use
    assert await store.keys.get(SYSTEM, "b") == theirs


async def test_only_the_system_finds_and_touches_keys(store: Store) -> None:
    await store.keys.create(DEFAULT, new_key())
    for use in (store.keys.find(DEFAULT, "k1"), store.keys.touch(DEFAULT, "k1")):
        with pytest.raises(InvalidInput):
            await use
    assert await store.keys.find(SYSTEM, "k2") is None


async def test_keys_are_listed_in_pages(store: Store) -> None:
    for key_id in ("c", "a", "b"):
        await store.keys.create(DEFAULT, new_key(key_id))
    first = await store.keys.list(DEFAULT, 2)
    assert [key.id for key in first] == ["a", "b"]
    assert [key.id for key in await store.keys.list(DEFAULT, 2, after="b")] == ["c"]


async def test_a_rotated_key_has_two_secrets_for_some_time(
    store: Store, clock: VirtualClock
) -> None:
    await store.keys.create(DEFAULT, new_key())
    now = await store.now()
    rotated = await store.keys.rotate(DEFAULT, "k1", NEXT_HASH, keep_seconds=60)
    assert rotated.previous_until == now + timedelta(seconds=60)
    record = await found(store)
    assert (record.secret_hash, record.previous_hash) == (NEXT_HASH, HASH)
    clock.advance(seconds=1)
    await store.keys.rotate(DEFAULT, "k1", THIRD_HASH, keep_seconds=60)
    record = await found(store)
    assert (record.secret_hash, record.previous_hash) == (THIRD_HASH, NEXT_HASH)


async def test_a_revoked_key_stays_revoked(store: Store, clock: VirtualClock) -> None:
    await store.keys.create(DEFAULT, new_key())
    now = await store.now()
    revoked = await store.keys.revoke(DEFAULT, "k1")
    assert revoked.revoked_at == now
    clock.advance(seconds=1)
    assert await store.keys.revoke(DEFAULT, "k1") == revoked
    with pytest.raises(Conflict, match="revoked"):
        await store.keys.rotate(DEFAULT, "k1", NEXT_HASH, keep_seconds=60)
    assert (await found(store)).secret_hash == HASH


async def test_the_last_admin_key_is_kept_if_asked(store: Store, clock: VirtualClock) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    await store.keys.create(DEFAULT, new_key("last", scopes=(Permission.READ, Permission.ADMIN)))
    soon = await store.now() + timedelta(seconds=5)
    admin = (Permission.ADMIN,)
    await store.keys.create(DEFAULT, new_key("expired", scopes=admin, expires_at=soon))
    await store.keys.create(DEFAULT, new_key("revoked", scopes=admin))
    await store.keys.create(DEFAULT, new_key("weak"))
    await store.keys.revoke(DEFAULT, "revoked", keep_admin=True)
    clock.advance(seconds=5)
    for _ in range(2):
        with pytest.raises(Conflict, match="last key with the scope admin"):
            await store.keys.revoke(DEFAULT, "last", keep_admin=True)
        for key_id in ("weak", "revoked", "expired"):
            await store.keys.revoke(DEFAULT, key_id, keep_admin=True)
    with pytest.raises(NotFound):  # Not a word about keys of others.
        await store.keys.revoke(Scope("other"), "last", keep_admin=True)
    await store.keys.create(Scope("other"), new_key("next", scopes=admin))
    assert (await store.keys.revoke(DEFAULT, "last", keep_admin=True)).revoked_at is not None
    assert (await store.keys.revoke(Scope("other"), "next")).revoked_at is not None


async def test_the_last_use_is_stored_once_a_minute(store: Store, clock: VirtualClock) -> None:
    await store.keys.create(DEFAULT, new_key())
    first = await store.now()
    await store.keys.touch(SYSTEM, "k1")
    clock.advance(seconds=LAST_USED_SECONDS - 1)
    await store.keys.touch(SYSTEM, "k1")
    assert (await store.keys.get(DEFAULT, "k1")).last_used_at == first
    clock.advance(seconds=1)
    await store.keys.touch(SYSTEM, "k1")
    second = first + timedelta(seconds=LAST_USED_SECONDS)
    assert (await store.keys.get(DEFAULT, "k1")).last_used_at == second


async def test_a_key_knows_that_its_tenant_is_suspended(store: Store) -> None:
    await store.keys.create(DEFAULT, new_key())
    await store.tenants.put(SYSTEM, Tenant(id="default", suspended=True))
    assert (await found(store)).is_suspended


@pytest.mark.parametrize("key_id", ["", "\0", "a" * 121, "\ud800"])
async def test_an_impossible_id_is_not_found(store: Store, key_id: str) -> None:
    with pytest.raises(NotFound):
        await store.keys.get(DEFAULT, key_id)
    with pytest.raises(NotFound):
        await store.keys.revoke(DEFAULT, key_id)
    with pytest.raises(NotFound):
        await store.keys.rotate(DEFAULT, key_id, NEXT_HASH, keep_seconds=0)
