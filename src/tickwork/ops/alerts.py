"""Where a tenant's alerts go: set, shown and cleared."""

from __future__ import annotations

from tickwork.core.delivery.alert import (
    ALERT_TYPES,
    ALERTS_QUEUE,
    ALERTS_SETTINGS,
    AlertTarget,
    decode_alert_target,
    encode_alert_target,
)
from tickwork.core.delivery.target import email_fault
from tickwork.core.model import SYSTEM
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import ensure_hidden_queue
from tickwork.ops.webhook_secret import check_key
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant

OWNER, FIELD = "alerts", "target"


async def set_alerts(context: Context, target: AlertTarget) -> None:
    """Sends a tenant's alerts to a target from now on. Its address is stored encrypted: that of a
    chat contains its password. Raises `InvalidInput`, and `Conflict` if the key is not that of the
    tenant's other secrets: no worker could read the address."""
    box = context.outside.secret_box()
    if target.url is None:
        quota = await context.store.tenants.quota(context.scope)
        if (fault := email_fault(own_tenant(context.scope), quota.emails_per_day)) is not None:
            raise InvalidInput([FieldError(target.way, fault)])
    if target.url is not None:
        try:
            context.outside.check_url(target.url)
        except InvalidInput as error:
            raise InvalidInput(
                FieldError(target.way, field_error.message) for field_error in error.errors
            ) from None
    await check_key(context, box, "alerts were not set")
    await ensure_alerts(context.store)
    for types in ALERT_TYPES:
        await context.store.subscriptions.put(SYSTEM, types, ALERTS_QUEUE)
    sealed = box.encrypt(encode_alert_target(target), own_tenant(context.scope), OWNER, FIELD)
    async with recorded(context, "alerts.set", "alerts", after={"way": target.way}):
        await context.store.secrets.rotate(context.scope, OWNER, FIELD, sealed, keep_seconds=0)


async def get_alerts(context: Context) -> AlertTarget | None:
    """Where a tenant's alerts go; None if nowhere."""
    found = await context.store.secrets.get(context.scope, OWNER, FIELD)
    if not found:
        return None  # Most tenants have none, and no key is read for them.
    box = context.outside.secret_box()
    return decode_alert_target(box.decrypt(found[0], own_tenant(context.scope), OWNER, FIELD))


async def clear_alerts(context: Context) -> None:
    """Sends no more alerts for a tenant."""
    async with recorded(context, "alerts.clear", "alerts"):
        await context.store.secrets.delete(context.scope, OWNER)


async def ensure_alerts(store: Store) -> None:
    """Creates the hidden queue of alerts."""
    await ensure_hidden_queue(store, ALERTS_QUEUE, ALERTS_SETTINGS)
