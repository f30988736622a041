"""What reaches the outside: which URLs may be requested, what encrypts secrets, what sends."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Protocol

from tickwork.errors import FieldError, InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from tickwork.channel.channels import WebhookSink

CheckUrl = Callable[[str], None]
"""Raises `InvalidInput` for a URL that may not be requested."""


class Box(Protocol):
    """Encrypts secrets; the tenant, the owner and the field are part of the ciphertext."""

    def encrypt(self, secret: str, tenant: str, row: str, field: str) -> bytes: ...

    def decrypt(self, stored: bytes, tenant: str, row: str, field: str) -> str: ...


GetBox = Callable[[], Box]
"""Reads the key when it is first needed."""


def _refuse(_: str) -> None:
    raise InvalidInput([FieldError("url", "cannot be used here: webhooks are not set up")])


def _no_box() -> Box:
    raise InvalidInput([FieldError("target", "cannot have secrets here: no key is set up")])


def _no_sink() -> WebhookSink:
    raise StoreUnavailable("this process makes no deliveries")


class Outside:
    """What an installation allows: the URLs of targets, callbacks if it has a public URL, and the
    targets of owners in every tenant (None: any target). `secret_box` makes a key if there is
    none; `secret_reader` only reads. All are called when something needs them, because that reads
    the settings."""

    __slots__ = (
        "check_url",
        "owner_targets",
        "public_url",
        "secret_box",
        "secret_reader",
        "webhook_sink",
    )

    def __init__(
        self,
        check_url: CheckUrl = _refuse,
        public_url: Callable[[], str | None] = lambda: None,
        secret_box: GetBox = _no_box,
        secret_reader: GetBox | None = None,
        webhook_sink: Callable[[], WebhookSink] = _no_sink,
        owner_targets: tuple[str, ...] | None = (),
    ) -> None:
        self.check_url = check_url
        self.public_url = public_url
        self.secret_box = secret_box
        self.secret_reader = secret_reader
        self.webhook_sink = webhook_sink
        self.owner_targets = owner_targets

    def with_one_box(self) -> Outside:
        """The same with a key that is read once."""
        return Outside(
            self.check_url,
            self.public_url,
            cache(self.secret_box),
            self.secret_reader,
            self.webhook_sink,
            self.owner_targets,
        )


NO_OUTSIDE = Outside()
"""For callers that reach nothing outside."""
