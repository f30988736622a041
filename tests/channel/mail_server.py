"""A real SMTP server on loopback that keeps what it accepts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from threading import Event
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

OPEN_SECONDS_MAX = 60.0
"""Seconds that emails wait for a mailbox that nobody opens."""


class Mailbox:
    """Keeps the emails that a server accepted; `answers` refuse a command or a recipient. While it
    is not `open`, the emails in `offered` wait."""

    def __init__(self) -> None:
        self.offered = 0
        self.open = Event()
        self.open.set()
        self.envelopes: list[Envelope] = []
        self.answers: dict[str, str] = {}

    @property
    def emails(self) -> list[EmailMessage]:
        contents = [envelope.content for envelope in self.envelopes]
        return [
            message_from_bytes(content, policy=policy.default)
            for content in contents
            if isinstance(content, bytes)
        ]

    async def handle_MAIL(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return self.answers.get("MAIL", "250 OK")

    async def handle_RCPT(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802
        self.offered += 1
        if not self.open.is_set():
            await asyncio.to_thread(self.open.wait, OPEN_SECONDS_MAX)
        if "DATA" in self.answers:
            return self.answers["DATA"]
        self.envelopes.append(envelope)
        return "250 accepted as 17"


@contextmanager
def mail_server(mailbox: Mailbox, **options: Any) -> Iterator[int]:
    """The port of a server that puts emails into a mailbox, in a thread of its own. The options are
    those of the server."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    server = Controller(mailbox, hostname="127.0.0.1", port=port, enable_SMTPUTF8=True, **options)
    server.start()
    try:
        yield port
    finally:
        server.stop()
