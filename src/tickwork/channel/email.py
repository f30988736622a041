"""Delivers email over SMTP.

Contract: `deliver` never raises, except when it is cancelled, and ends within the timeout, which
begins when a connection is free. A connection is kept for the emails of the next seconds. The relay
is the operator's; it is not guarded. A password is sent only over TLS or to this machine. A
permanent answer (5xx) to an email is final. The `Message-ID` is stable over retries, so that a mail
client shows a repeated email once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime

import aiosmtplib
from msgspec import structs

from tickwork.channel.relay import Relay
from tickwork.clock import monotonic
from tickwork.core.delivery.outcome import Delivery, ErrorKind, excerpt, failed
from tickwork.core.delivery.pace import EMAIL_CONCURRENCY
from tickwork.core.delivery.request import EmailRequest

IDLE_SECONDS = 5.0
"""Seconds that a connection without emails is kept."""

EMAILS_PER_CONNECTION_MAX = 50
"""Number of emails after which a connection is closed. Many relays have a limit of their own."""

QUIT_SECONDS = 1.0
"""Seconds that a relay may take to say goodbye."""

RESET_SECONDS = 2.0
"""Seconds that a relay may take to answer over a kept connection before a new one is opened."""

NOT_ENCRYPTED = (
    "the relay offers no STARTTLS, so the password was not sent; use smtps://, or a relay with "
    "STARTTLS, or a URL without a user"
)

_PERMANENT = range(500, 600)
_CLOSING = 421


class EmailChannel:
    """Sends email through one relay. `close` when no more come."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._permits = asyncio.Semaphore(EMAIL_CONCURRENCY)
        self._idle: dict[_Connection, asyncio.TimerHandle] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._own_name: str | None = None

    async def deliver(self, request: EmailRequest) -> Delivery:
        """Sends one email and returns what became of it."""
        try:
            message = composed(request)
        except (ValueError, MessageError) as error:
            return _unbuilt(error)
        async with self._permits:
            started_at = monotonic()
            result = await self._try(request, message)
            return structs.replace(result, took_seconds=monotonic() - started_at)

    async def close(self) -> None:
        """Closes the connections that were kept."""
        for connection in [*self._idle]:
            self._leave(connection)
        await asyncio.gather(*self._leaving)

    async def _try(self, request: EmailRequest, message: EmailMessage) -> Delivery:
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await self._send(message, request.to)
        except TimeoutError:
            return failed(ErrorKind.TIMEOUT, f"not sent within {request.timeout_seconds:g} s")
        except aiosmtplib.SMTPRecipientsRefused as error:
            # Whoever was refused for now may accept the next attempt.
            shown = min(error.recipients, key=lambda recipient: recipient.code)
            return self._refused(shown.code, shown.message, is_of_email=True)
        except aiosmtplib.SMTPResponseException as error:
            is_of_email = isinstance(error, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPDataError)
            return self._refused(error.code, error.message, is_of_email=is_of_email)
        except ssl.SSLError as error:
            return failed(ErrorKind.TLS, f"TLS failed: {error}")
        except _NotEncryptedError:
            return failed(ErrorKind.TLS, NOT_ENCRYPTED)
        except ValueError as error:
            return _unbuilt(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            fault = f"the relay did not answer: {error}"
            return failed(ErrorKind.CONNECT, fault, secrets=self._relay.secrets)

    def _refused(self, code: int, text: str, *, is_of_email: bool) -> Delivery:
        """An answer of the relay. One that is not about this email, such as a wrong password, is
        the operator's to mend, and not final."""
        return Delivery(
            is_delivered=False,
            kind=ErrorKind.SMTP,
            error=f"the relay answered {code}: {excerpt(text, self._relay.secrets) or ''}",
            code=code,
            is_permanent=is_of_email and code in _PERMANENT,
        )

    async def _send(self, message: EmailMessage, to: Sequence[str]) -> Delivery:
        if (kept := await self._kept()) is not None:
            try:
                return await self._send_over(kept, message, to)
            except aiosmtplib.SMTPSenderRefused as error:
                if error.code != _CLOSING:  # The relay wants no more over this connection.
                    raise
        return await self._send_over(await self._opened(), message, to)

    async def _send_over(
        self, connection: _Connection, message: EmailMessage, to: Sequence[str]
    ) -> Delivery:
        with _closed_on_error(connection):
            refused, answer = await connection.send_message(message, recipients=to)
        self._keep(connection)
        # Some recipients have it: a retry would send it to them again.
        missed = "".join(f"; refused: {name}: {value.message}" for name, value in refused.items())
        shown = excerpt(answer + missed, self._relay.secrets)
        return Delivery(is_delivered=True, code=250, excerpt=shown)

    async def _kept(self) -> _Connection | None:
        """A kept connection over which the relay still answers."""
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            with suppress(aiosmtplib.SMTPException, OSError), _closed_on_error(connection):
                await connection.rset(timeout=RESET_SECONDS)
                return connection
        return None

    async def _opened(self) -> _Connection:
        """A new connection, with the login."""
        relay = self._relay
        connection = _Connection(
            hostname=relay.host,
            port=relay.port,
            local_hostname=self._own_name,
            use_tls=relay.is_tls,
            timeout=None,
        )
        with _closed_on_error(connection):
            await connection.connect()  # Uses STARTTLS if the relay offers it.
            self._own_name = connection.local_hostname  # To find it may take seconds.
            if relay.user is not None:
                is_encrypted = connection.get_transport_info("sslcontext") is not None
                if not is_encrypted and not relay.is_local:
                    raise _NotEncryptedError
                await connection.login(relay.user, relay.password or "")
        return connection

    def _keep(self, connection: _Connection) -> None:
        connection.emails += 1
        later = asyncio.get_running_loop().call_later
        self._idle[connection] = later(IDLE_SECONDS, self._leave, connection)
        if connection.emails >= EMAILS_PER_CONNECTION_MAX:
            self._leave(connection)

    def _leave(self, connection: _Connection) -> None:
        """Says goodbye over a kept connection, in the background."""
        self._idle.pop(connection).cancel()
        leaving = asyncio.ensure_future(_quit(connection))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


class _Connection(aiosmtplib.SMTP):
    """A connection with the number of emails that were sent over it."""

    emails = 0


@contextmanager
def _closed_on_error(connection: _Connection) -> Iterator[None]:
    """Not `async with`: when it is cancelled, that waits for a relay that may hang."""
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            connection.close()


async def _quit(connection: _Connection) -> None:
    with suppress(aiosmtplib.SMTPException, OSError):
        await connection.quit(timeout=QUIT_SECONDS)
    connection.close()


class _NotEncryptedError(Exception):
    """A password would go over a network in clear text."""


def composed(request: EmailRequest) -> EmailMessage:
    """The message with its headers and parts. Raises ValueError for what cannot be a header."""
    message = EmailMessage()
    message["From"] = request.sender
    message["To"] = ", ".join(request.to)
    message["Subject"] = request.subject
    message["Date"] = format_datetime(request.sent_at)
    message["Message-ID"] = request.message_id
    if request.text is not None or request.html is None:
        message.set_content(request.text or "")
    if request.html is not None:
        message.add_alternative(request.html, subtype="html")
    return message


def _unbuilt(error: Exception) -> Delivery:
    return failed(ErrorKind.PAYLOAD, f"the email cannot be built: {error}", is_permanent=True)
