"""Hides the secrets of a request in what is kept of its answer.

A receiver may repeat a request: whole, cut, decoded, or one part of it. So a secret is split
as a receiver splits it, and of each part every piece of `FRAGMENT_CHARACTERS` is hidden.

| of | secret parts |
|---|---|
| a header `Bearer X`, `Token X` | `X` |
| a header `Basic X` | `X`, and the user and the password in it |
| a cookie or parameters, `a=X; b=Y` | `X`, `Y` |
| the query of a URL, `?a=X&b=Y` | `X`, `Y`, as they are and decoded |
| the path of a hook of a chat service | its segments, except for words such as `services` |
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator

MASK = "***"

FRAGMENT_CHARACTERS = 8
"""Characters of a secret that are not shown, wherever they come from in it."""

WORD_CHARACTERS_MIN = 4
"""Characters from which on a part that is shorter than a fragment is hidden, as a whole word."""

_PARAMETERS = re.compile(r"[;,\s]+")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_HOOK = re.compile(
    r"(?i)https?://(?:[^/?#]*\.)?(?:hooks\.slack\.com|discord(?:app)?\.com|api\.telegram\.org|"
    r"webhook\.office\.com|chat\.googleapis\.com)(?:[:/?#]|\Z)"
)
"""URLs of the hosts, with those below them, whose paths are secrets."""

_WORDS = frozenset({
    "api", "apikey", "basic", "bearer", "bot", "digest", "false", "hook", "hooks", "messages",
    "none", "null", "sendmessage", "services", "spaces", "token", "triggers", "true", "webhook",
    "webhooks", "webhookb2", "workflows",
})  # fmt: skip
"""Parts that are no secrets: schemes, and words in the paths of hooks."""


def redacted(text: str, secrets: Collection[str]) -> str:
    """A text without these parts of secrets, and without pieces of them."""
    if not secrets or len(text) < WORD_CHARACTERS_MIN:
        return text
    fragments = {
        part[at : at + FRAGMENT_CHARACTERS]
        for part in secrets
        for at in range(len(part) - FRAGMENT_CHARACTERS + 1)
    }
    starts = range(len(text) - FRAGMENT_CHARACTERS + 1)
    if not fragments.isdisjoint(text[at : at + FRAGMENT_CHARACTERS] for at in starts):
        text = "".join(_pieces(text, fragments))
    words = [part for part in secrets if len(part) < FRAGMENT_CHARACTERS]
    if not words:
        return text
    any_word = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{any_word})(?!\w)", MASK, text)


def _pieces(text: str, fragments: Collection[str]) -> Iterator[str]:
    """What is shown of a text: of pieces that touch or overlap one mask."""
    shown_from = hidden_until = 0
    for at in range(len(text) - FRAGMENT_CHARACTERS + 1):
        if text[at : at + FRAGMENT_CHARACTERS] in fragments:
            if at >= hidden_until:
                yield text[shown_from:at]
                yield MASK
            shown_from = hidden_until = at + FRAGMENT_CHARACTERS
    yield text[shown_from:]


def header_secrets(value: str) -> frozenset[str]:
    """The secret parts of the value of a header."""
    scheme, _, rest = value.strip().partition(" ")
    parts = {rest if scheme.lower() in _WORDS else value, *_PARAMETERS.split(value)}
    parts |= {part.partition("=")[2].strip('"') for part in [*parts]}
    return _secret(parts | _in_basic(rest) if scheme.lower() == "basic" else parts)


def _in_basic(credentials: str) -> set[str]:
    """The user and the password of a header `Basic …`."""
    try:
        user, _, password = b64decode(credentials).decode().partition(":")
    except ValueError:
        return set()
    return {user, password}


def query_secrets(url: str) -> frozenset[str]:
    """The values in the query of a URL."""
    query = url.partition("?")[2].partition("#")[0]
    values = {part.partition("=")[2] or part for part in re.split("[&;]", query)}
    return _secret(_decoded(values))


def path_secrets(url: str) -> frozenset[str]:
    """The segments in the path of a URL that are secrets."""
    path = url.partition("://")[2].partition("?")[0].partition("#")[0]
    segments = {*path.split("/")[1:]}
    return _secret(_decoded(segments | {part.removeprefix("bot") for part in segments}))


def url_secrets(url: str) -> frozenset[str]:
    """The secret parts of any URL: its query, and the path of a hook of a chat service."""
    found = path_secrets(url) if _HOOK.match(url) else frozenset[str]()
    return found | query_secrets(url) if "?" in url else found


def _decoded(parts: Collection[str]) -> set[str]:
    return {*parts, *(_unquoted(part.replace("+", " ")) for part in parts), *map(_unquoted, parts)}


def _unquoted(text: str) -> str:
    """A part of a URL with the characters that its percent signs stand for."""
    if "%" not in text:
        return text
    raw = _PERCENT.sub(lambda found: bytes([int(found[1], 16)]), text.encode())
    return raw.decode(errors="replace")


def _secret(parts: Collection[str]) -> frozenset[str]:
    return frozenset(
        part for part in parts if len(part) >= WORD_CHARACTERS_MIN and part.lower() not in _WORDS
    )
