"""API keys: `tw_<id>_<secret>`, of which only the SHA-256 hash of the secret is stored.

The secret has 256 random bits, so nobody can guess it from its hash: a slow password hash would
protect nothing and cost each request milliseconds. The operator may choose the first key: its text
is then the secret of the key `admin`. Rotation gives a key a second secret; the one
before stays valid for some time, so that programs can change theirs without an interruption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tickwork.core.access import Caller, Permission, suspended
from tickwork.core.fields import NAME_LENGTH_MAX, FieldReader, Reader, text_faults
from tickwork.errors import Conflict, FieldError, InvalidInput, Unauthorized

SECRET_BYTES = 32
"""Random bytes of a secret."""

ROTATION_SECONDS = 86_400.0
"""Default seconds that the previous secret of a rotated key stays valid."""

ROTATION_SECONDS_MAX = 30 * 86_400.0

LAST_USED_SECONDS = 60.0
"""Seconds between two updates of the time a key was last used."""

FIRST_KEY_ID = "admin"
"""Id of the key that the first start on an empty database makes."""

CHOSEN_KEY = "32 to 256 letters, digits and - _ + / = ~, such as that of openssl rand -hex 32"
"""What a key must be that the operator chooses."""

_TOKEN = re.compile(r"tw_([a-z0-9]{1,32})_([0-9a-f]{64})", re.ASCII)
_CHOSEN = re.compile(r"(?!tw_)[A-Za-z0-9_+/=~-]{32,256}", re.ASCII)


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key without its secret. `previous_until` is when the secret before the last rotation stops
    working."""

    id: str
    tenant: str
    name: str
    scopes: tuple[Permission, ...]
    owner: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    previous_until: datetime | None


class CreatedKey(ApiKey, frozen=True, kw_only=True):
    """A key with its text, `tw_…`, which is not shown again."""

    token: str

    def __repr__(self) -> str:
        return f"CreatedKey(id={self.id!r}, name={self.name!r}, token='***')"


class NewApiKey(Struct, frozen=True, kw_only=True):
    """A key that is to be stored."""

    id: str
    name: str
    scopes: tuple[Permission, ...]
    owner: str | None = None
    expires_at: datetime | None = None
    secret_hash: bytes

    def __repr__(self) -> str:
        return f"NewApiKey(id={self.id!r}, name={self.name!r})"


class KeyRecord(Struct, frozen=True, kw_only=True):
    """What a key is checked against: read once, and then used for some seconds."""

    key: ApiKey
    secret_hash: bytes
    previous_hash: bytes | None
    is_suspended: bool
    read_at: datetime

    def __repr__(self) -> str:
        return f"KeyRecord({self.key!r})"


class Token(NamedTuple):
    """A key as its holder has it."""

    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Token({self.key_id!r}, '***')"


def new_token(key_id: str, secret: bytes) -> str:
    """The text that the holder of a key keeps."""
    return f"tw_{key_id}_{secret.hex()}"


def parse_token(text: str) -> Token | None:
    """The parts of a key, or None if the text does not have its form. A text that only the operator
    can have chosen is the secret of the first key."""
    match = _TOKEN.fullmatch(text)
    if match is not None:
        return Token(match[1], match[2])
    return Token(FIRST_KEY_ID, text) if _CHOSEN.fullmatch(text) else None


def hash_of(secret: str) -> bytes:
    """What is stored of a secret."""
    return sha256(secret.encode("ascii")).digest()


def caller_of(record: KeyRecord, secret_hash: bytes, now: datetime) -> Caller:
    """The caller that a key stands for, by the hash of the secret that was given. Raises
    `Unauthorized`, and `Forbidden` if its tenant is suspended.

    Only a holder of the secret learns why a key is refused. The operator's keys work in a suspended
    tenant, too: somebody has to resume it.
    """
    if not _fits(record, secret_hash, now):
        raise no_such_key()
    key = record.key
    if key.revoked_at is not None:
        raise Unauthorized("key_revoked", f"API key {key.id} is revoked; use another one")
    if key.expires_at is not None and key.expires_at <= now:
        raise Unauthorized("key_expired", f"API key {key.id} has expired; use another one")
    caller = Caller(tenant=key.tenant, scopes=frozenset(key.scopes), owner=key.owner, key_id=key.id)
    if record.is_suspended and not caller.is_operator:
        raise suspended(key.tenant)
    return caller


def check_other_admin(key_id: str, admins: Sequence[str]) -> None:
    """Raises `Conflict` if a key is the only one of the valid ones with the scope `admin`."""
    if [*admins] == [key_id]:
        raise Conflict(
            "this is the last key with the scope admin, and it cannot be revoked over HTTP: create "
            "another one first, or run `tickwork keys revoke` on the database"
        )


def no_such_key() -> Unauthorized:
    """The error for an unknown key, and for a known one with a wrong secret."""
    return Unauthorized("unauthorized", "there is no such API key; check that it is complete")


def _fits(record: KeyRecord, given: bytes, now: datetime) -> bool:
    previous_until = record.key.previous_until
    fits = compare_digest(given, record.secret_hash)
    if record.previous_hash is not None and previous_until is not None and now < previous_until:
        fits |= compare_digest(given, record.previous_hash)
    return fits


class KeyFields(Struct, frozen=True, kw_only=True):
    """A new API key."""

    name: Annotated[str, Meta(description="What the key is for.")]
    scopes: Annotated[tuple[Permission, ...], Meta(description="No scope implies another.")]
    owner: Annotated[
        str | None, Meta(description="One user, whose schedules the key is limited to.")
    ] = None
    expires_at: datetime | None = None


def read_key_fields(fields: Mapping[str, object], now: datetime) -> KeyFields:
    """Parses the fields of a new key. Raises `InvalidInput` with every error."""
    faults: list[FieldError] = []
    reader = Reader({name: field for name, field in fields.items() if field is not None}, faults)
    reader.refuse_unknown(_READERS.keys())
    values = reader.read(_READERS)
    faults += [
        FieldError(name, "is missing") for name in ("name", "scopes") if fields.get(name) is None
    ]
    for name in ("name", "owner"):
        if isinstance(values.get(name), str):
            faults += text_faults(name, values[name], NAME_LENGTH_MAX)
    scopes = sorted(values.get("scopes", ()), key=list(Permission).index)
    if values.get("owner") is not None and Permission.ADMIN in scopes:
        faults.append(FieldError("scopes", "a key with an owner cannot have the scope admin"))
    expires_at = values.get("expires_at")
    if expires_at is not None and expires_at <= now:
        faults.append(FieldError("expires_at", "must be in the future"))
    if faults:
        raise InvalidInput(faults)
    return KeyFields(**values | {"scopes": tuple(scopes)})


_READERS: dict[str, FieldReader] = {
    "name": lambda reader, name: reader.string(name),
    "scopes": lambda reader, name: reader.some_of(name, Permission),
    "owner": lambda reader, name: reader.string(name),
    "expires_at": lambda reader, name: reader.instant(name),
}
