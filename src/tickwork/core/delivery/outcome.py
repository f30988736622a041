"""What a delivery attempt came to, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from tickwork.core.delivery.redact import MASK, redacted

EXCERPT_CHARACTERS_MAX = 1_000
"""Maximum number of characters of an answer that are kept."""

RETRY_AFTER_SECONDS_MAX = 86_400.0
"""Longest `Retry-After` that is honoured."""

_GONE = 410
_SECRET_TEXT = re.compile(
    r"(?i)(whsec_[A-Za-z0-9+/=]+|tct_[\w-]+|bearer\s+[^\s\"']+|(?:api[_-]?key|token|secret|password)"
    r"[\"']?\s*[:=]\s*[\"']?[^\s\"',&}]+)"
)
_UNPRINTABLE = re.compile(r"[\0-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class ErrorKind(StrEnum):
    """Where a delivery failed."""

    REFUSED = "refused"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    HTTP = "http"
    SMTP = "smtp"
    PAYLOAD = "payload"
    QUOTA = "quota"
    UNKNOWN = "unknown"


class Delivery(Struct, frozen=True, kw_only=True):
    """The result of one attempt to deliver.

    `is_permanent`: no retry can succeed. `is_gone`: the receiver wants no more deliveries.
    `retry_after_seconds` is the receiver's wish. `code` is the status of an answer.
    """

    is_delivered: bool
    kind: ErrorKind | None = None
    error: str | None = None
    code: int | None = None
    excerpt: str | None = None
    retry_after_seconds: float | None = None
    is_permanent: bool = False
    is_gone: bool = False
    took_seconds: float = 0.0


def failed(
    kind: ErrorKind, error: str, *, is_permanent: bool = False, secrets: Collection[str] = ()
) -> Delivery:
    """A delivery without an answer. The `secrets` of the request are not shown."""
    shown = excerpt(error, secrets) or "failed"  # It may quote what the receiver sent.
    return Delivery(is_delivered=False, kind=kind, error=shown, is_permanent=is_permanent)


def answered(
    status: int,
    headers: Mapping[str, str],
    text: str,
    now: datetime,
    *,
    permanent_statuses: frozenset[int] = frozenset(),
    secrets: Collection[str] = (),
) -> Delivery:
    """The meaning of an answer: 2xx succeeds, everything else is retried, except what the endpoint
    calls permanent. 410 also disables an endpoint. The `secrets` of the request are not shown."""
    kept = excerpt(text, secrets)
    if 200 <= status < 300:
        return Delivery(is_delivered=True, code=status, excerpt=kept)
    return Delivery(
        is_delivered=False,
        kind=ErrorKind.HTTP,
        error=f"the receiver answered {status}",
        code=status,
        excerpt=kept,
        retry_after_seconds=retry_after(headers.get("Retry-After"), now),
        is_permanent=status in permanent_statuses,
        is_gone=status == _GONE,
    )


def retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds of a `Retry-After` header: a number, or a date."""
    from email.utils import parsedate_to_datetime  # Slow to import; `tickwork next` needs none.

    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


def excerpt(text: str, secrets: Collection[str] = ()) -> str | None:
    """The start of an answer, without these and other secrets and unprintable characters."""
    shown = redacted(_UNPRINTABLE.sub("\ufffd", text), secrets)
    shown = _SECRET_TEXT.sub(MASK, shown)
    return shown[:EXCERPT_CHARACTERS_MAX].strip() or None
