"""Checks JWTs: the signature by the algorithm and the keys of their issuer, and then their claims.

Nothing in a token decides how it is checked: its issuer's settings do. Headers that name keys or
addresses of keys (`jwk`, `jku`, `x5u`) are ignored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jwt
from jwt.algorithms import get_default_algorithms

from tickwork.core.access import Caller
from tickwork.core.jwt_issuer import Issuer, caller_of_claims
from tickwork.errors import FieldError, InvalidInput, Unauthorized

LEEWAY_SECONDS = 5
"""Seconds by which the clock of an issuer may differ from ours."""

JWKS_SECONDS = 300.0
"""Seconds that the keys of an issuer are used without fetching them again."""

JWKS_PAUSE_SECONDS = 10.0
"""Seconds between two fetches because of a key that is not known, or after a failure."""

JWKS_TIMEOUT_SECONDS = 5.0
JWKS_BYTES_MAX = 1_000_000

_log = logging.getLogger(__name__)


class JwtChecker:
    """Checks tokens of some issuers."""

    def __init__(self, issuers: Sequence[Issuer], monotonic: Callable[[], float]) -> None:
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        self._keys: dict[str, _Keys] = {
            issuer.issuer: _Jwks(issuer, monotonic) if issuer.jwks_url else _FixedKey(issuer)
            for issuer in issuers
        }

    async def caller(self, token: str) -> Caller:
        """The caller whom a token stands for. Raises `Unauthorized`."""
        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refused("it cannot be parsed") from None
        name = claimed.get("iss")
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        if issuer is None or header.get("alg") != issuer.algorithm:
            raise _refused("its issuer or algorithm is not configured")
        key_id = header.get("kid")
        if not isinstance(key_id, str | None):
            raise _refused("its key id is not a text")
        key = await self._keys[issuer.issuer].find(key_id)
        return caller_of_claims(issuer, _verified(token, issuer, key))


def _verified(token: str, issuer: Issuer, key: Any) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[str(issuer.algorithm)],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthorized("token_expired", "the token has expired; get a new one") from None
    except (jwt.PyJWTError, ValueError):
        raise _refused("its signature or a mandatory claim is wrong") from None
    return claims


def _refused(why: str) -> Unauthorized:
    return Unauthorized("invalid_token", f"the token is not valid: {why}")


class _Keys(Protocol):
    """The keys of an issuer."""

    async def find(self, key_id: str | None) -> Any:
        """The key that a token names."""


class _FixedKey:
    """The secret or the public key in the settings."""

    def __init__(self, issuer: Issuer) -> None:
        algorithm = get_default_algorithms()[issuer.algorithm]
        try:
            self._key = algorithm.prepare_key(issuer.secret or issuer.public_key)
        except (jwt.PyJWTError, ValueError, TypeError):
            fault = f"is not a key for {issuer.algorithm}; give the public key in PEM"
            raise InvalidInput([FieldError(f"jwt {issuer.issuer}: public_key", fault)]) from None

    async def find(self, key_id: str | None) -> Any:  # noqa: ARG002 (part of the interface)
        return self._key


class _Jwks:
    """The keys at the issuer's URL, fetched when they are needed."""

    def __init__(self, issuer: Issuer, monotonic: Callable[[], float]) -> None:
        self._issuer, self._monotonic = issuer, monotonic
        self._keys: dict[str | None, Any] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str | None) -> Any:
        if self._is_older(self._fetched_at, JWKS_SECONDS) or key_id not in self._keys:
            async with self._fetching:
                await self._refresh(key_id)
        if key_id in self._keys:
            return self._keys[key_id]
        raise _refused("its key is not among those of its issuer")

    def _is_older(self, at: float | None, seconds: float) -> bool:
        return at is None or self._monotonic() - at >= seconds

    async def _refresh(self, key_id: str | None) -> None:
        is_stale = self._is_older(self._fetched_at, JWKS_SECONDS) or key_id not in self._keys
        if not is_stale or not self._is_older(self._tried_at, JWKS_PAUSE_SECONDS):
            return
        self._tried_at = self._monotonic()
        try:
            fetched = await asyncio.to_thread(_fetch, str(self._issuer.jwks_url))
            self._keys = _parse(fetched, self._issuer)
            self._fetched_at = self._monotonic()
        except (OSError, ValueError) as error:
            _log.error("the keys of issuer %s cannot be fetched: %s", self._issuer.issuer, error)


def _fetch(url: str) -> bytes:
    # The operator chose the URL; the settings allow only https and this machine.
    with urllib.request.urlopen(url, timeout=JWKS_TIMEOUT_SECONDS) as answer:  # noqa: S310
        body: bytes = answer.read(JWKS_BYTES_MAX + 1)
    if len(body) > JWKS_BYTES_MAX:
        raise ValueError(f"the answer has more than {JWKS_BYTES_MAX} bytes")
    return body


def _parse(body: bytes, issuer: Issuer) -> dict[str | None, Any]:
    """The keys by id that fit the issuer's algorithm; others are left out."""
    document = json.loads(body)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the answer is not a JSON Web Key Set")
    found: dict[str | None, Any] = {}
    for key in listed:
        if not isinstance(key, dict) or key.get("use", "sig") != "sig":
            continue
        if key.get("alg", issuer.algorithm) != issuer.algorithm:
            continue
        try:
            found[key.get("kid")] = jwt.PyJWK(key, algorithm=str(issuer.algorithm)).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
    return found
