"""The SMTP relay of an operator, as its URL names it."""

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tickwork.errors import FieldError, InvalidInput

_SUBMISSION_PORT, _TLS_PORT = 587, 465


class Relay(Struct, frozen=True):
    """An SMTP relay, from `smtp://user:password@host:587` or `smtps://…`."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None
    is_tls: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, so that a password does not go over a network."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def secrets(self) -> frozenset[str]:
        """The password, as it is and as a login sends it."""
        if not self.password:
            return frozenset()
        logins = (self.password, f"\0{self.user or ''}\0{self.password}")
        return frozenset({self.password, *(b64encode(login.encode()).decode() for login in logins)})

    @classmethod
    def from_url(cls, url: str) -> Relay:
        """Raises `InvalidInput`."""
        try:
            parsed = urlsplit(url)
            port = parsed.port
        except ValueError:
            raise _invalid("has no valid port") from None
        is_plain = url.isprintable() and " " not in url
        if parsed.scheme not in ("smtp", "smtps") or not parsed.hostname or not is_plain:
            raise _invalid("must be smtp://user:password@host:587 or smtps://…")
        is_tls = parsed.scheme == "smtps"
        return cls(
            parsed.hostname,
            port or (_TLS_PORT if is_tls else _SUBMISSION_PORT),
            None if parsed.username is None else unquote(parsed.username),
            None if parsed.password is None else unquote(parsed.password),
            is_tls,
        )


def _invalid(fault: str) -> InvalidInput:
    return InvalidInput([FieldError("smtp_url", fault)])
