"""The audit log: stored per tenant, listed newest first, kept for a year."""

import pytest

from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.audit import AUDIT_RETENTION_SECONDS, AuditRecord, NewAuditRecord
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


def change(action: str = "queue.put") -> NewAuditRecord:
    return NewAuditRecord(id=new_id(), actor="key k1", action=action, subject="q", after='{"a":1}')


async def test_a_record_is_stored_as_given(store: Store, clock: VirtualClock) -> None:
    new = change()
    await store.audit.add(DEFAULT, new)
    assert await store.audit.list(DEFAULT, 10) == (
        AuditRecord(
            id=new.id,
            tenant="default",
            at=clock.now(),
            actor="key k1",
            action="queue.put",
            subject="q",
            before=None,
            after={"a": 1},
        ),
    )


async def test_records_are_listed_newest_first_in_pages_of_their_tenant(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    made = [change() for _ in range(5)]
    for each in made:
        await store.audit.add(DEFAULT, each)
    await store.audit.add(Scope("other"), change())
    first = await store.audit.list(DEFAULT, 3)
    rest = await store.audit.list(DEFAULT, 3, before=first[-1].id)
    assert [each.id for each in (*first, *rest)] == [each.id for each in reversed(made)]
    assert len(await store.audit.list(Scope("other"), 10)) == 1
    with pytest.raises(NotFound):
        await store.audit.add(Scope("nobody"), change())


async def test_records_are_kept_for_a_year(store: Store, clock: VirtualClock) -> None:
    await store.audit.add(DEFAULT, change())
    clock.advance(seconds=AUDIT_RETENTION_SECONDS - 1)
    await store.pruner.prune(SYSTEM, 100)
    assert len(await store.audit.list(DEFAULT, 10)) == 1
    clock.advance(seconds=1)
    await store.pruner.prune(SYSTEM, 100)
    assert await store.audit.list(DEFAULT, 10) == ()
