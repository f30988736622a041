"""Issuers of JWTs: how they are configured, and which caller the claims of a token stand for.

Each issuer has one algorithm, so a token cannot choose how it is checked. It lists its tenants;
with a `tenant_claim` a token names one of them, without it the issuer has exactly one. The
`owner_claim` names the user; the `admin_claim`, if it is true, only lifts the bound to that user.
It may name a value: `role=admin` is true for a claim `role` that is `admin`, or a list with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from tickwork.core.access import Caller, Permission
from tickwork.core.fields import NAME_LENGTH_MAX, FieldReader, Reader, shown
from tickwork.core.limits import is_name
from tickwork.errors import FieldError, Unauthorized

DEFAULT_TENANT = "default"
ISSUERS_MAX = 20
TENANTS_MAX = 1_000

SECRET_BYTES_MIN = 32
"""Bytes of a shared secret: a shorter one than the hash can be guessed."""

_JWKS_URL = re.compile(
    r"(?:https://[^\s/?#@:]+(?::\d{1,5})?|http://(?:127\.0\.0\.1|\[::1\]):\d{1,5})(?:/\S*)?\Z"
)

SCOPES = frozenset({Permission.READ, Permission.MANAGE})
"""What the bearer of a token may do."""


class Algorithm(StrEnum):
    """How tokens of an issuer are signed."""

    HS256 = "HS256"
    RS256 = "RS256"
    ES256 = "ES256"


class Issuer(Struct, frozen=True, kw_only=True):
    """An issuer of tokens, and how to check them: by a shared `secret` (HS256), or by a
    `public_key` in PEM or the keys at `jwks_url` (RS256, ES256)."""

    issuer: str
    audience: str
    algorithm: Algorithm
    tenants: tuple[str, ...]
    secret: str | None = None
    public_key: str | None = None
    jwks_url: str | None = None
    tenant_claim: str | None = None
    owner_claim: str = "sub"
    admin_claim: str | None = None

    def __repr__(self) -> str:
        return f"Issuer(issuer={self.issuer!r}, algorithm={self.algorithm!r})"


def caller_of_claims(issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    """The caller that verified claims stand for. Raises `Unauthorized`."""
    tenant: object = issuer.tenants[0]
    if issuer.tenant_claim is not None:
        tenant = claims.get(issuer.tenant_claim)
    if not isinstance(tenant, str) or tenant not in issuer.tenants:
        raise _invalid(f"its claim {issuer.tenant_claim} must name a tenant of this issuer")
    owner = claims.get(issuer.owner_claim)
    is_admin = _is_admin(issuer.admin_claim, claims)
    if owner is None and is_admin:
        return Caller(tenant=tenant, scopes=SCOPES, subject="admin")
    if not isinstance(owner, str) or not is_name(owner):
        raise _invalid(
            f"its claim {issuer.owner_claim} must be a text of 1 to {NAME_LENGTH_MAX} characters"
        )
    bound = None if is_admin else owner
    return Caller(tenant=tenant, scopes=SCOPES, owner=bound, subject=owner)


def _is_admin(admin_claim: str | None, claims: Mapping[str, Any]) -> bool:
    name, has_value, value = (admin_claim or "").partition("=")
    found = claims.get(name)
    if not has_value:
        return admin_claim is not None and found is True
    return found == value or (isinstance(found, list) and value in found)


def _invalid(why: str) -> Unauthorized:
    return Unauthorized("invalid_token", f"the token is not valid: {why}")


def read_issuers(
    entries: Sequence[Mapping[str, object]], faults: list[FieldError], name: str
) -> tuple[Issuer, ...]:
    """The configured issuers; their errors are added to `faults`. `name` is how errors call an
    entry: `{name}[0].issuer`, or for environment variables `{name}ISSUER`."""
    found = [
        _read_issuer(entry, faults, f"{name}[{index}].", {}) for index, entry in enumerate(entries)
    ]
    issuers = [issuer for issuer in found if issuer is not None]
    if len(entries) > ISSUERS_MAX:
        faults.append(FieldError(name, f"at most {ISSUERS_MAX} issuers, not {len(entries)}"))
    if len({issuer.issuer for issuer in issuers}) < len(issuers):
        faults.append(FieldError(name, "two entries have the same issuer"))
    return tuple(issuers)


def read_issuer_variables(
    variables: Mapping[str, str], faults: list[FieldError], prefix: str
) -> tuple[Issuer, ...]:
    """The issuer that environment variables describe: `TICKWORK_JWT_ISSUER` and others. By default
    the algorithm fits the key, and without a claim for it there is one tenant, `default`."""
    given = {
        key.removeprefix(prefix).lower(): value
        for key, value in variables.items()
        if key.startswith(prefix) and value
    }
    if not given:
        return ()
    usual = Algorithm.HS256 if "secret" in given else Algorithm.RS256
    given.setdefault("algorithm", str(usual))
    if "tenant_claim" not in given:
        given.setdefault("tenants", DEFAULT_TENANT)
    names = {reader: f"{prefix}{reader.upper()}" for reader in {*given, *_READERS}}
    issuer = _read_issuer(given, faults, "", names)
    return () if issuer is None else (issuer,)


def _read_issuer(
    entry: Mapping[str, object], faults: list[FieldError], prefix: str, names: Mapping[str, str]
) -> Issuer | None:
    own: list[FieldError] = []
    reader = Reader(entry, own, prefix, names=names)
    reader.refuse_unknown(_READERS.keys())
    values = reader.read(_READERS)
    for name in ("issuer", "audience", "algorithm", "tenants"):
        if name not in entry:
            reader.fault(name, "is missing")
    if not own:
        _check(values, reader)
    faults += own
    return None if own else Issuer(**values)


def _check(values: Mapping[str, Any], reader: Reader) -> None:
    """Checks fields against each other."""
    keys = [name for name in ("secret", "public_key", "jwks_url") if values.get(name)]
    wanted = ["secret"] if values["algorithm"] is Algorithm.HS256 else ["public_key", "jwks_url"]
    if len(keys) != 1 or keys[0] not in wanted:
        fault = f"{values['algorithm']} needs {' or '.join(wanted)}, and nothing else"
        reader.fault("algorithm", fault)
    if len(str(values.get("secret") or " " * SECRET_BYTES_MIN).encode()) < SECRET_BYTES_MIN:
        reader.fault("secret", f"must have at least {SECRET_BYTES_MIN} bytes")
    url = values.get("jwks_url")
    if url is not None and not _JWKS_URL.match(url):
        reader.fault("jwks_url", "must begin with https:// and name a host")
    if values.get("tenant_claim") is None and len(values["tenants"]) != 1:
        reader.fault("tenant_claim", "is missing: this issuer has more than one tenant")


def _text(reader: Reader, name: str) -> str | None:
    """A text that is not empty; the error does not show it, as it may be a secret."""
    value = reader.value(name)
    if isinstance(value, str) and value.strip():
        return value
    reader.fault(name, "must be a text that is not empty")
    return None


def _algorithm(reader: Reader, name: str) -> Algorithm | None:
    found = reader.one_of(name, Algorithm)
    return None if found is None else Algorithm(found)


def _tenants(reader: Reader, name: str) -> tuple[str, ...] | None:
    value = reader.value(name)
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if (
        isinstance(items, list | tuple)
        and 0 < len(items) <= TENANTS_MAX
        and all(isinstance(item, str) and is_name(item) for item in items)
    ):
        return tuple(items)
    reader.fault(name, f"must be a list of 1 to {TENANTS_MAX} tenants, not {shown(value)}")
    return None


_READERS: dict[str, FieldReader] = {
    "issuer": _text,
    "audience": _text,
    "algorithm": _algorithm,
    "tenants": _tenants,
    "secret": _text,
    "public_key": _text,
    "jwks_url": _text,
    "tenant_claim": _text,
    "owner_claim": _text,
    "admin_claim": _text,
}
