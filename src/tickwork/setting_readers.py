"""Reads settings that are lists, URLs, secrets and email addresses. An error names the setting, and
shows no value that may be secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tickwork.core.fields import Reader, shown
from tickwork.errors import InvalidInput

Value = TypeVar("Value")


def checked(
    reader: Reader, name: str, value: Value, check: Callable[[Value], object]
) -> Value | None:
    """A value that another module checks, which raises `InvalidInput`."""
    try:
        check(value)
    except InvalidInput as error:
        for fault in error.errors:
            reader.fault(name, fault.message)
        return None
    return value


def texts(reader: Reader, name: str, what: str) -> tuple[str, ...] | None:
    """A list of texts, or one text with commas between them."""
    value = reader.value(name)
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        reader.fault(name, f"must be {what}")
        return None
    return tuple(item.strip() for item in items if item.strip())


def url(reader: Reader, name: str, what: str, *, without: str = "@") -> str | None:
    """The URL of an HTTP server. The error does not show the value: it may contain a secret."""
    from urllib.parse import urlsplit

    value = reader.value(name)
    if isinstance(value, str) and value.isprintable() and not {*without, " "} & {*value}:
        try:
            parsed = urlsplit(value)
            is_valid = parsed.scheme in ("http", "https") and parsed.hostname and parsed.port != 0
        except ValueError:  # Of a port that is none.
            is_valid = False
        if is_valid:
            return value
    reader.fault(name, f"must be {what}")
    return None


def secret(reader: Reader, name: str) -> str | None:
    """Checks only that it is a text. The error does not show the value."""
    value = reader.value(name)
    if isinstance(value, str) and value.strip():
        return value
    reader.fault(name, "must be a text")
    return None


def smtp_url(reader: Reader, name: str) -> str | None:
    """The relay of emails."""
    from tickwork.channel.relay import Relay

    value = secret(reader, name)
    return None if value is None else checked(reader, name, value, Relay.from_url)


def email_key(reader: Reader, name: str) -> str | None:
    """The key of a provider of email, which is sent in a header."""
    value = secret(reader, name)
    if value is not None and not (value.isascii() and value.isprintable()):
        reader.fault(name, "must have printable ASCII characters only")
    return value


def email_url(reader: Reader, name: str) -> str | None:
    """Where a provider takes emails."""
    return url(reader, name, "the URL of the provider, such as https://mail.example.com/send")


def sender(reader: Reader, name: str) -> str | None:
    """One email address, with or without a name to show."""
    from tickwork.core.delivery.target import is_address

    value = reader.value(name)
    if isinstance(value, str) and value.isprintable():
        shown_name, bracket, rest = value.strip().rpartition("<")
        address = rest.removesuffix(">") if bracket else rest
        if is_address(address) and rest.endswith(">") == bool(bracket) and _is_quoted(shown_name):
            return value.strip()
    advice = 'such as Shop <shop@example.com> or "Shop, Berlin" <shop@example.com>'
    reader.fault(name, f"must be one email address, {advice}, not {shown(value)}")
    return None


def _is_quoted(shown_name: str) -> bool:
    """Whether a name to show before an address has quotes, if it needs them."""
    name = shown_name.strip()
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        return not any(mark in name[1:-1] for mark in '"\\')
    return not any(mark in name for mark in '",;:@<>()[]\\')
