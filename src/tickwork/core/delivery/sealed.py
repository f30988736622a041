"""Secrets in the target of a schedule, which are stored encrypted and never shown.

| field | what is shown |
|---|---|
| values of headers, except for a few that are no secrets | `***` |
| the URL of a chat | `https://hooks.slack.com/***` |
| a URL with a query | `https://example.com/hook?***` |

A sealed text is `sealed:{row}:{ciphertext}:{what is shown}`. Messages and dead letters carry it as
it is. It is opened when a request is sent.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from tickwork.core.delivery.redact import (
    MASK,
    header_secrets,
    path_secrets,
    query_secrets,
    url_secrets,
)
from tickwork.core.delivery.target import (
    Channel,
    ChannelsTarget,
    ChatTarget,
    OutsideTarget,
    WebhookTarget,
)
from tickwork.errors import FieldError, InvalidInput

PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers whose values are no secrets."""

_PREFIX = "sealed:"
SEALED_MARK = _PREFIX.encode()
"""Bytes that every body with a sealed text contains."""

_URL = "url"
AnyTarget = TypeVar("AnyTarget", bound=OutsideTarget)


class SealedText(Struct, frozen=True):
    """An encrypted text in a field of a row, and what is shown of it."""

    row: str
    ciphertext: bytes
    shown: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.row}:{b64encode(self.ciphertext).decode()}:{self.shown}"


class _Body(Struct, frozen=True):
    target: OutsideTarget
    payload: msgspec.Raw
    delivery: str | UnsetType = UNSET


_BODIES = msgspec.json.Decoder(_Body)


def seal_body(
    body: bytes, before: bytes | None, row: str, encrypt: Callable[[str, str], bytes]
) -> bytes:
    """The body of a schedule with a target outside, with its secrets encrypted by `encrypt`, which
    is given the secret and its field. A secret that is given as it is shown keeps its value in the
    body `before`. Raises `InvalidInput` if it has none."""
    given = _BODIES.decode(body)
    old = None if before is None else _BODIES.decode(before).target
    faults: list[FieldError] = []

    def seal(target: AnyTarget, known: object, prefix: str) -> AnyTarget:
        kept = dict(_secrets(known)) if type(known) is type(target) else {}

        def change(field: str, value: str) -> str:
            stored = kept.get(field)
            if stored is not None and read_sealed(stored) and shown_text(stored) == value:
                return stored
            shown = _shown(target, field, value)
            if value == shown:
                fault = f"{MASK} stands for a secret that is stored, and there is none; give it"
                faults.append(FieldError(f"target.{prefix}{field}", fault))
                return value
            return str(SealedText(row, encrypt(value, field), shown))

        return _with_secrets(target, change)

    target = given.target
    if isinstance(target, ChannelsTarget):
        known = old.channels if isinstance(old, ChannelsTarget) else ()
        sealed: OutsideTarget = structs.replace(
            target,
            channels=tuple(
                seal(channel, _same_channel(channel, known[at : at + 1]), f"channels[{at}].")
                for at, channel in enumerate(target.channels)
            ),
        )
    else:
        sealed = seal(target, old, "")
    if faults:
        raise InvalidInput(faults)
    return body if sealed == target else msgspec.json.encode(structs.replace(given, target=sealed))


def _same_channel(channel: Channel, known: tuple[Channel, ...]) -> Channel | None:
    """The channel that was at the same index, if it had the same address: of several channels none
    gets the secrets of another."""
    url = getattr(channel, _URL, None)
    is_same = known and shown_text(getattr(known[0], _URL, None) or "") == url
    return known[0] if is_same else None


def masked(target: OutsideTarget) -> OutsideTarget:
    """A target with its secrets as they are shown."""
    if isinstance(target, ChannelsTarget):
        return structs.replace(target, channels=tuple(map(_masked, target.channels)))
    return _masked(target)


def _masked(target: AnyTarget) -> AnyTarget:
    return _with_secrets(target, lambda _, value: shown_text(value))


def open_channel(channel: Channel, decrypt: Callable[[SealedText, str], str]) -> Channel:
    """A channel with its secrets, decrypted by `decrypt`, which is given the sealed text and its
    field."""

    def change(field: str, value: str) -> str:
        sealed = read_sealed(value)
        return value if sealed is None else decrypt(sealed, field)

    return _with_secrets(channel, change)


def secrets_in(channel: Channel) -> frozenset[str]:
    """The secrets of an open channel in the parts that a receiver may repeat."""
    if isinstance(channel, ChatTarget):
        return path_secrets(channel.url) | query_secrets(channel.url)
    if not isinstance(channel, WebhookTarget):
        return frozenset()
    values = [value for field, value in _secrets(channel) if field != _URL]
    return url_secrets(channel.url).union(*map(header_secrets, values))


def read_sealed(text: str) -> SealedText | None:
    """A sealed text; None for any other one."""
    if not text.startswith(_PREFIX):
        return None
    row, _, rest = text.removeprefix(_PREFIX).partition(":")
    ciphertext, _, shown = rest.partition(":")
    try:
        return SealedText(row, b64decode(ciphertext, validate=True), shown)
    except ValueError:
        return None


def shown_text(text: str) -> str:
    """What is shown of a text, which may be sealed."""
    sealed = read_sealed(text)
    return text if sealed is None else sealed.shown


def _shown(target: OutsideTarget, field: str, value: str) -> str:
    if field != _URL:
        return MASK
    if isinstance(target, WebhookTarget):
        return f"{value.partition('?')[0]}?{MASK}"
    scheme, _, rest = value.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/{MASK}"


def _secrets(target: object) -> Iterator[tuple[str, str]]:
    """The secrets of a channel: the name of the field, and the text."""
    if isinstance(target, ChatTarget) or (isinstance(target, WebhookTarget) and "?" in target.url):
        yield _URL, target.url
    if isinstance(target, WebhookTarget):
        for name, value in target.headers.items():
            if name.lower() not in PLAIN_HEADERS:
                yield f"headers.{name}", value


def _with_secrets(target: AnyTarget, change: Callable[[str, str], str]) -> AnyTarget:
    """A channel whose secrets are changed."""
    changed = {field: change(field, value) for field, value in _secrets(target)}
    if not changed:
        return target
    assert isinstance(target, WebhookTarget | ChatTarget)
    fields: dict[str, object] = {_URL: changed.get(_URL, target.url)}
    if isinstance(target, WebhookTarget):
        fields["headers"] = {
            name: changed.get(f"headers.{name}", value) for name, value in target.headers.items()
        }
    return structs.replace(target, **fields)
