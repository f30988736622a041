"""Delivers email over SMTP.

Contract: `deliver` never raises, except when it is cancelled, and ends within the timeout. The
relay is the operator's; it is not guarded. A password is sent only over TLS or to this machine. A
permanent answer (5xx) to an email is final. The `Message-ID` is stable over retries, so that a mail
client shows a repeated email once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

import aiosmtplib
from msgspec import Struct, structs

from tickwork.clock import monotonic
from tickwork.core.delivery.outcome import Delivery, ErrorKind, excerpt, failed
from tickwork.core.delivery.request import EmailRequest
from tickwork.errors import FieldError, InvalidInput

CONNECTIONS_MAX = 10
"""Maximum number of connections to the relay at once."""

QUIT_SECONDS = 1.0
"""Seconds that a relay may take to say goodbye."""

NOT_ENCRYPTED = (
    "the relay offers no STARTTLS, so the password was not sent; use smtps://, or a relay with "
    "STARTTLS, or a URL without a user"
)

_SUBMISSION_PORT, _TLS_PORT = 587, 465
_PERMANENT = range(500, 600)


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

    @classmethod
    def from_url(cls, url: str) -> Relay:
        """Raises `InvalidInput`."""
        try:
            parsed = urlsplit(url)
            port = parsed.port
        except ValueError:
            raise _invalid("smtp_url", "has no valid port") from None
        if parsed.scheme not in ("smtp", "smtps") or not parsed.hostname:
            raise _invalid("smtp_url", "must be smtp://user:password@host:587 or smtps://…")
        is_tls = parsed.scheme == "smtps"
        return cls(
            parsed.hostname,
            port or (_TLS_PORT if is_tls else _SUBMISSION_PORT),
            None if parsed.username is None else unquote(parsed.username),
            None if parsed.password is None else unquote(parsed.password),
            is_tls,
        )


class EmailChannel:
    """Sends email through one relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._permits = asyncio.Semaphore(CONNECTIONS_MAX)

    async def deliver(self, request: EmailRequest) -> Delivery:
        """Sends one email and returns what became of it."""
        started_at = monotonic()
        try:
            message = composed(request)
        except (ValueError, MessageError) as error:
            return _unbuilt(error)
        try:
            async with asyncio.timeout(request.timeout_seconds) as limit, self._permits:
                result = await self._send(message, request.to, limit)
        except TimeoutError:
            result = failed(ErrorKind.TIMEOUT, f"not sent within {request.timeout_seconds:g} s")
        except aiosmtplib.SMTPRecipientsRefused as error:
            # Whoever was refused for now may accept the next attempt.
            shown = min(error.recipients, key=lambda each: each.code)
            result = _refused(shown.code, shown.message, is_of_email=True)
        except aiosmtplib.SMTPResponseException as error:
            is_of_email = isinstance(error, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPDataError)
            result = _refused(error.code, error.message, is_of_email=is_of_email)
        except ssl.SSLError as error:
            result = failed(ErrorKind.TLS, f"TLS failed: {error}")
        except _NotEncryptedError:
            result = failed(ErrorKind.TLS, NOT_ENCRYPTED)
        except ValueError as error:
            result = _unbuilt(error)
        except (aiosmtplib.SMTPException, OSError) as error:
            result = failed(ErrorKind.CONNECT, f"the relay did not answer: {error}")
        return structs.replace(result, took_seconds=monotonic() - started_at)

    async def close(self) -> None:
        """No connection is kept."""

    async def _send(
        self, message: EmailMessage, to: Sequence[str], limit: asyncio.Timeout
    ) -> Delivery:
        relay = self._relay
        connection = aiosmtplib.SMTP(
            hostname=relay.host,
            port=relay.port,
            use_tls=relay.is_tls,
            timeout=None,
        )
        try:  # Not `async with`: when it is cancelled, it waits for a relay that may hang.
            await connection.connect()  # Uses STARTTLS if the relay offers it.
            await self._log_in(connection)
            refused, answer = await connection.send_message(message, recipients=to)
            limit.reschedule(None)  # The relay has it: what follows cannot make it a failure.
            with suppress(aiosmtplib.SMTPException, OSError):
                await connection.quit(timeout=QUIT_SECONDS)
        finally:
            connection.close()
        # Some recipients have it: a retry would send it to them again.
        missed = "".join(f"; refused: {name}: {each.message}" for name, each in refused.items())
        return Delivery(is_delivered=True, code=250, excerpt=excerpt(answer + missed))

    async def _log_in(self, connection: aiosmtplib.SMTP) -> None:
        relay = self._relay
        if relay.user is None:
            return
        is_encrypted = connection.get_transport_info("sslcontext") is not None
        if not is_encrypted and not relay.is_local:
            raise _NotEncryptedError
        await connection.login(relay.user, relay.password or "")


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


def _refused(code: int, text: str, *, is_of_email: bool) -> Delivery:
    """An answer of the relay. One that is not about this email, such as a wrong password, is the
    operator's to mend, and not final."""
    return Delivery(
        is_delivered=False,
        kind=ErrorKind.SMTP,
        error=f"the relay answered {code}: {excerpt(text) or ''}",
        code=code,
        is_permanent=is_of_email and code in _PERMANENT,
    )


def _unbuilt(error: Exception) -> Delivery:
    return failed(ErrorKind.PAYLOAD, f"the email cannot be built: {error}", is_permanent=True)


def _invalid(field: str, fault: str) -> InvalidInput:
    return InvalidInput([FieldError(field, fault)])
