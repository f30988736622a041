"""The secret with which a tenant's webhooks are signed.

It is made when it is first needed. `rotate` replaces it; for a day webhooks carry the signatures of
both, so that receivers can change theirs at any time.
"""

from __future__ import annotations

from typing import Protocol

from tickwork.core.delivery.signature import new_secret, secret_key
from tickwork.core.model import Scope
from tickwork.ops.audit import recorded
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant, random_bytes

OWNER, FIELD = "tenant", "signing"
ROTATION_SECONDS = 86_400.0
"""Seconds that the previous secret stays valid."""

SECRET_BYTES = 32
"""Random bytes of a new secret."""


class Box(Protocol):
    """Encrypts secrets; the tenant, the owner and the field are part of the ciphertext."""

    def encrypt(self, secret: str, tenant: str, row: str, field: str) -> bytes: ...

    def decrypt(self, stored: bytes, tenant: str, row: str, field: str) -> str: ...


async def signing_secret(store: Store, scope: Scope, box: Box) -> str:
    """The current secret of a tenant, which receivers check signatures with."""
    (current, *_) = await signing_secrets(store, scope, box)
    return current


async def signing_secrets(store: Store, scope: Scope, box: Box) -> tuple[str, ...]:
    """The valid secrets of a tenant, the current one first; makes one if there is none."""
    tenant = own_tenant(scope)
    found = await store.secrets.get(scope, OWNER, FIELD)
    if not found:
        made = box.encrypt(new_secret(random_bytes(SECRET_BYTES)), tenant, OWNER, FIELD)
        await store.secrets.put(scope, OWNER, FIELD, made)  # Another process may be first.
        found = await store.secrets.get(scope, OWNER, FIELD)
    return tuple(box.decrypt(each, tenant, OWNER, FIELD) for each in found)


async def rotate_signing_secret(store: Store, scope: Scope, box: Box) -> str:
    """Replaces the secret of a tenant and returns the new one."""
    secret = new_secret(random_bytes(SECRET_BYTES))
    sealed = box.encrypt(secret, own_tenant(scope), OWNER, FIELD)
    async with recorded(store, scope, "webhooks.rotate", "signing secret"):
        await store.secrets.rotate(scope, OWNER, FIELD, sealed, keep_seconds=ROTATION_SECONDS)
    return secret


async def signing_keys(store: Store, scope: Scope, box: Box) -> tuple[bytes, ...]:
    """The keys to sign with, the current one first."""
    return tuple(secret_key(each) for each in await signing_secrets(store, scope, box))
