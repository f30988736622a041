"""API keys of a tenant: create, list, rotate, revoke. A secret is shown once, when it is made."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from tickwork.core.access import Permission
from tickwork.core.api_key import (
    FIRST_KEY_ID,
    ROTATION_SECONDS,
    ROTATION_SECONDS_MAX,
    SECRET_BYTES,
    ApiKey,
    CreatedKey,
    NewApiKey,
    hash_of,
    new_token,
    parse_token,
    read_key_fields,
)
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.errors import Conflict, FieldError, InvalidInput
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id, random_bytes

ADMIN_KEY_VARIABLE = "TICKWORK_ADMIN_KEY"
"""Environment variable with the first key, if the operator chooses it."""

_TIME_DIGITS = 12
"""Hexadecimal digits of an id that are the time it was made, so that ids sort by it."""

_RANDOM_ID_BYTES = 4


async def create_key(context: Context, given: Mapping[str, object]) -> CreatedKey:
    """Makes a key of a tenant with the fields `name`, `scopes`, `owner` and `expires_at`."""
    checked = read_key_fields(given, await context.store.now())
    key_id = new_id().hex[:_TIME_DIGITS] + random_bytes(_RANDOM_ID_BYTES).hex()
    token, fields = new_token(key_id, random_bytes(SECRET_BYTES)), structs.asdict(checked)
    async with recorded(context, "key.create", key_id, after=fields):
        return await _create(context, token, **fields)


async def create_first_key(store: Store, chosen: str | None = None) -> CreatedKey | None:
    """Makes the operator's first key if there is no key at all; else None. `chosen` is its text, if
    the operator has chosen one."""
    if await store.keys.list(SYSTEM, 1):
        return None
    token = chosen or new_token(FIRST_KEY_ID, random_bytes(SECRET_BYTES))
    try:
        return await _create(
            Context(store, DEFAULT), token, name="first start", scopes=tuple(Permission)
        )
    except Conflict:  # Another process was first.
        return None


def first_key_text(made: CreatedKey, base_url: str, *, is_chosen: bool) -> str:
    """What the first start says about the key that it made."""
    about = f"it is not shown again:\n  {made.token}"
    token = made.token
    if is_chosen:
        about, token = f"that of {ADMIN_KEY_VARIABLE}.", f"${ADMIN_KEY_VARIABLE}"
    return (
        f"This database had no API key. This is the first one, with all scopes; {about}\n"
        f'Try it:\n  curl -H "Authorization: Bearer {token}" {base_url}/v1/stats'
    )


async def list_keys(
    context: Context, *, limit: int = 1_000, after: str | None = None
) -> tuple[ApiKey, ...]:
    """The keys of a tenant, oldest first, without secrets; also expired and revoked ones."""
    return await context.store.keys.list(context.scope, limit, after=after)


async def get_key(context: Context, key_id: str) -> ApiKey:
    """One key of a tenant. Raises `NotFound`."""
    return await context.store.keys.get(context.scope, key_id)


async def rotate_key(
    context: Context, key_id: str, *, keep_seconds: float = ROTATION_SECONDS
) -> CreatedKey:
    """Gives a key a new secret. The one before stays valid for `keep_seconds`."""
    if not 0 <= keep_seconds <= ROTATION_SECONDS_MAX:
        fault = f"must be from 0 to {ROTATION_SECONDS_MAX:g}, not {keep_seconds:g}"
        raise InvalidInput([FieldError("keep_seconds", fault)])
    token = new_token(key_id, secret := random_bytes(SECRET_BYTES))
    after = {"keep_seconds": keep_seconds}
    async with recorded(context, "key.rotate", key_id, after=after):
        rotated = await context.store.keys.rotate(
            context.scope, key_id, hash_of(secret.hex()), keep_seconds=keep_seconds
        )
    return CreatedKey(**structs.asdict(rotated), token=token)


async def revoke_key(context: Context, key_id: str, *, keep_admin: bool = False) -> ApiKey:
    """Makes a key invalid for ever. API processes notice within `CACHE_SECONDS`. With `keep_admin`
    it raises `Conflict` for the last valid key with the scope `admin`: nobody could create keys
    then."""
    async with recorded(context, "key.revoke", key_id):
        return await context.store.keys.revoke(context.scope, key_id, keep_admin=keep_admin)


async def _create(context: Context, token: str, **fields: object) -> CreatedKey:
    parsed = parse_token(token)
    assert parsed is not None
    new = NewApiKey(id=parsed.key_id, secret_hash=hash_of(parsed.secret), **fields)  # type: ignore[arg-type]
    created = await context.store.keys.create(context.scope, new)
    return CreatedKey(**structs.asdict(created), token=token)
