"""Types that apps declare: by queue, type and app, seen by their tenant, kept while declared."""

import pytest

from tests.conformance.acts import WORK, make_queue
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.message_type import ANY_TYPE, DeclaredType
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, Scope, Tenant
from tickwork.core.types.declared import TYPES_KEPT_SECONDS, NewType, schema_text, version_of
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ACME = Scope("acme")
TEXT, NUMBER = ({"type": kind} for kind in ("string", "integer"))


async def declare(
    store: Store,
    scope: Scope = DEFAULT,
    *,
    app: str = "mailer",
    type_: str = "mail",
    schema: dict[str, str] | None = None,
    handlers: tuple[str, ...] = ("m.send",),
    owner: Scope | None = None,
) -> None:
    text = schema_text(TEXT if schema is None else schema)
    queue = await store.queues.get(owner or scope, WORK)
    new = NewType(
        queue_id=queue.id, type=type_, version=version_of(text), schema=text, handlers=handlers
    )
    await store.types.register(scope, app, [new])


async def listed(store: Store, scope: Scope = DEFAULT) -> tuple[DeclaredType, ...]:
    return await store.types.list(scope, 100)


async def test_a_new_version_replaces_the_one_of_the_same_app(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await declare(store)
    (first,) = await listed(store)
    assert (first.queue, first.type, first.app, first.schema) == (WORK, "mail", "mailer", TEXT)
    assert (first.handlers, first.first_seen_at) == (("m.send",), first.last_seen_at)
    clock.advance(seconds=60)
    await declare(store)
    (again,) = await listed(store)
    assert again.first_seen_at == first.first_seen_at < again.last_seen_at
    await declare(store, schema=NUMBER)
    await declare(store, app="billing", type_=ANY_TYPE, handlers=())
    found = {(one.type, one.app): one for one in await listed(store)}
    assert found.keys() == {("mail", "mailer"), (ANY_TYPE, "billing")}
    changed = found["mail", "mailer"]
    assert (changed.schema, changed.first_seen_at) == (NUMBER, changed.last_seen_at)


async def test_a_body_fits_if_one_app_takes_it(store: Store) -> None:
    await make_queue(store)
    assert not await store.types.of_queue(DEFAULT, WORK)
    await declare(store)
    await declare(store, app="billing", schema=NUMBER)
    types = await store.types.of_queue(DEFAULT, WORK)
    fits = {
        body: types.fault("mail", body, ContentType.JSON) is None for body in (b'"a"', b"1", b"[]")
    }
    assert fits == {b'"a"': True, b"1": True, b"[]": False}
    assert types.unhandled("mail") is None
    assert "did you mean 'mail'?" in str(types.unhandled("mails"))
    await declare(store, app="audit", type_=ANY_TYPE, schema={})
    assert (await store.types.of_queue(DEFAULT, WORK)).unhandled("mails") is None


async def test_a_tenant_declares_and_sees_types_of_its_own_queues_and_shared_ones(
    store: Store,
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    await make_queue(store)
    await declare(store, ACME, owner=DEFAULT)  # The queue of somebody else.
    assert await listed(store, SYSTEM) == ()
    await declare(store)
    assert await listed(store, ACME) == ()
    assert not await store.types.of_queue(ACME, WORK)
    await store.queues.put(SYSTEM, WORK, (await store.queues.get(DEFAULT, WORK)).settings)
    await declare(store, ACME, app="shared", owner=SYSTEM)
    assert [one.app for one in await listed(store, ACME)] == ["shared"]
    assert await store.types.of_queue(ACME, WORK)
    assert [one.app for one in await listed(store)] == ["mailer", "shared"]


async def test_types_that_nobody_declares_any_more_are_forgotten(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await declare(store)
    clock.advance(seconds=TYPES_KEPT_SECONDS - 60)
    await declare(store, app="billing")
    clock.advance(seconds=120)
    await store.pruner.prune(SYSTEM, 100)
    assert [one.app for one in await listed(store)] == ["billing"]
    await store.queues.delete(DEFAULT, WORK)
    assert await listed(store) == ()
