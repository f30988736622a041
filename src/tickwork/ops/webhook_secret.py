"""The secret with which a tenant's webhooks are signed.

It is made when it is first needed. `rotate` replaces it; for a day webhooks carry the signatures of
both, so that receivers can change theirs at any time.

No secret is stored with a key that cannot read those that the tenant has: no worker could read it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tickwork.core.delivery.endpoint import secrets_owner
from tickwork.core.delivery.signature import new_secret, secret_key
from tickwork.core.model import Scope
from tickwork.errors import Conflict, StoreBroken
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.outside import Box
from tickwork.store.ids import own_tenant, random_bytes

OWNER, SIGNING = "tenant", "signing"
ROTATION_SECONDS = 86_400.0
"""Seconds that the previous secret stays valid."""

SECRET_BYTES = 32
"""Random bytes of a new secret."""

CHECKED_ENDPOINTS = 5
"""Maximum number of endpoints whose secrets are read to check a key."""

_log = logging.getLogger("tickwork")


async def signing_secret(context: Context) -> str:
    """The current secret of a tenant, which receivers check signatures with."""
    box = context.outside.secret_box()
    (current, *_) = await _signing(context, box)
    return box.decrypt(current, own_tenant(context.scope), OWNER, SIGNING)


async def signing_secrets(context: Context) -> tuple[str, ...]:
    """The valid secrets of a tenant, the current one first; makes one if there is none."""
    box = context.outside.secret_box()
    found = await _signing(context, box)
    return readable(box, found, own_tenant(context.scope), OWNER, SIGNING)


async def _signing(context: Context, box: Box) -> tuple[bytes, ...]:
    tenant = own_tenant(context.scope)
    found = await context.store.secrets.get(context.scope, OWNER, SIGNING)
    if not found:
        try:
            await check_key(context, box, "the tenant's webhook secret was not made")
        except Conflict as error:  # To a worker it is the same as one that it cannot read.
            raise StoreBroken(str(error)) from None
        made = box.encrypt(new_secret(random_bytes(SECRET_BYTES)), tenant, OWNER, SIGNING)
        await context.store.secrets.put(
            context.scope, OWNER, SIGNING, made
        )  # Another process may be first.
        found = await context.store.secrets.get(context.scope, OWNER, SIGNING)
    return found


async def rotate_signing_secret(context: Context, *, is_key_lost: bool = False) -> str:
    """Replaces the secret of a tenant and returns the new one. Raises `Conflict` if the key does
    not read the current one, unless that one's key is lost."""
    box = context.outside.secret_box()
    tenant, keep_seconds = own_tenant(context.scope), 0.0 if is_key_lost else ROTATION_SECONDS
    if not is_key_lost:
        advice = "if that key is lost, repeat this with --lost-key"
        found = await context.store.secrets.get(context.scope, OWNER, SIGNING)
        check_current(box, found, tenant, OWNER, "the tenant's webhook secret", advice)
    secret = new_secret(random_bytes(SECRET_BYTES))
    sealed = box.encrypt(secret, tenant, OWNER, SIGNING)
    async with recorded(context, "webhooks.rotate", "signing secret"):
        await context.store.secrets.rotate(
            context.scope, OWNER, SIGNING, sealed, keep_seconds=keep_seconds
        )
    return secret


def check_current(
    box: Box, found: Sequence[bytes], tenant: str, owner: str, what: str, advice: str
) -> None:
    """Raises `Conflict` if the key does not read the current one of the secrets that were found:
    workers would not read what this key encrypts."""
    try:
        for current in found[:1]:
            box.decrypt(current, tenant, owner, SIGNING)
    except StoreBroken as error:
        raise Conflict(f"{what} was not rotated: {error}; {advice}") from None


async def check_key(context: Context, box: Box, refusal: str) -> None:
    """Raises `Conflict` if the tenant has signing secrets and the key reads none of them."""
    tenant, refused = own_tenant(context.scope), None
    known = await context.store.endpoints.list(Scope(tenant), CHECKED_ENDPOINTS)
    for owner in (OWNER, *(secrets_owner(endpoint.id) for endpoint in known)):
        for current in (await context.store.secrets.get(context.scope, owner, SIGNING))[:1]:
            try:
                box.decrypt(current, tenant, owner, SIGNING)
            except StoreBroken as error:
                refused = refused or error
            else:
                return
    if refused is not None:
        raise Conflict(f"{refusal}: {refused}")


def readable(
    box: Box, found: Sequence[bytes], tenant: str, owner: str, field: str
) -> tuple[str, ...]:
    """The secrets that the key reads, in their order; logs another one, such as the previous one of
    a rotation. Raises `StoreBroken` if it reads none."""
    read, refused = list[str](), list[StoreBroken]()
    for stored in found:
        try:
            read.append(box.decrypt(stored, tenant, owner, field))
        except StoreBroken as error:
            refused.append(error)
    if refused and not read:
        raise refused[0]
    for unread in refused:
        _log.warning("tenant %s: webhooks lack one of two signatures: %s", tenant, unread)
    return tuple(read)


async def signing_keys(context: Context) -> tuple[bytes, ...]:
    """The keys to sign with, the current one first."""
    return tuple(secret_key(secret) for secret in await signing_secrets(context))
