"""Delivers a message over several channels at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from msgspec import structs

from tickwork.core.delivery.email_provider import Provider, provider_request
from tickwork.core.delivery.outcome import Delivery, ErrorKind, failed
from tickwork.core.delivery.request import (
    EmailRequest,
    WebhookRequest,
    chat_request,
    email_request,
    values_of,
    webhook_request,
)
from tickwork.core.delivery.target import (
    Channel,
    ChatTarget,
    WebhookTarget,
    email_count,
)
from tickwork.core.delivery.templates import NotFilled
from tickwork.core.model import Message

NO_RELAY = (
    "there is no SMTP relay and no email provider; set TICKWORK_SMTP_URL or "
    "TICKWORK_EMAIL_PROVIDER, and TICKWORK_EMAIL_FROM"
)

_MAYBE_SENT = (ErrorKind.TIMEOUT, ErrorKind.UNKNOWN)
"""Failures after which an email may have been sent: it counts."""


class WebhookSink(Protocol):
    """Sends requests; `deliver` never raises."""

    async def deliver(self, request: WebhookRequest) -> Delivery: ...

    async def close(self) -> None: ...


class LateSink:
    """A sink that is made, in a thread, when the first request comes: the packages that it needs
    take half a second to import, and many processes never deliver anything."""

    def __init__(self, make: Callable[[], WebhookSink]) -> None:
        self._make = make
        self._made: asyncio.Future[WebhookSink] | None = None

    def deliver(self, request: WebhookRequest) -> Coroutine[Any, Any, Delivery]:
        """Sends one request and returns what became of it."""
        if self._made is not None and self._made.done():
            return self._made.result().deliver(request)
        return self._make_and_deliver(request)

    async def _make_and_deliver(self, request: WebhookRequest) -> Delivery:
        if self._made is None:
            self._made = asyncio.ensure_future(asyncio.to_thread(self._make))
        sink = await asyncio.shield(self._made)
        return await sink.deliver(request)

    async def close(self) -> None:
        """Closes the connections that were kept."""
        if self._made is not None:
            await (await self._made).close()


class EmailSink(Protocol):
    """Sends email; `deliver` never raises."""

    async def deliver(self, request: EmailRequest) -> Delivery: ...

    async def close(self) -> None: ...


class EmailProvider:
    """Sends email through a provider over HTTP, with a sink of its own: the address is the
    operator's. Everything but a 2xx is tried again, also a key that the provider refuses."""

    def __init__(self, provider: Provider, sink: WebhookSink, *, url: str, key: str) -> None:
        self._provider = provider
        self._sink = sink
        self._url = url
        self._key = key

    async def deliver(self, request: EmailRequest) -> Delivery:
        """Sends one email and returns what became of it."""
        result = await self._sink.deliver(
            provider_request(self._provider, request, url=self._url, key=self._key)
        )
        if result.code is None:
            return result
        error = None if result.is_delivered else f"the email provider answered {result.code}"
        if error is not None and result.excerpt:
            error += f": {result.excerpt}"
        return structs.replace(result, error=error)

    async def close(self) -> None:
        """Closes the connections that were kept."""
        await self._sink.close()


class EmailQuota(Protocol):
    """Counts the emails of tenants before they are sent."""

    async def take(self, tenant: str, emails: int) -> Delivery | int | None:
        """Counts emails. Returns what becomes of them if they may not be sent; else the day on
        which they count, or None if the tenant has no limit."""

    async def give_back(self, tenant: str, emails: int, day: int) -> None:
        """These emails were not sent."""


class Channels:
    """Delivers messages. `close` when no more come. Without an `email_quota` nothing is counted:
    the caller answers for it."""

    def __init__(
        self,
        webhooks: WebhookSink,
        email: EmailSink | None,
        *,
        sender: str | None,
        clock: Callable[[], datetime],
        email_quota: EmailQuota | None = None,
    ) -> None:
        self._webhooks = webhooks
        self._email = email
        self._sender = sender
        self._clock = clock
        self._email_quota = email_quota

    async def close(self) -> None:
        """Closes the connections that were kept."""
        await self._webhooks.close()
        if self._email is not None:
            await self._email.close()

    async def deliver(
        self,
        channels: Mapping[str, Channel],
        payload: Any,
        message: Message,
        *,
        keys: Sequence[bytes],
        schedule_name: str | None,
        timeout_seconds: float,
        arrived: Callable[[str, Delivery], Awaitable[None]] | None = None,
        headers: Mapping[str, str] = {},
    ) -> dict[str, Delivery]:
        """Delivers over channels at once; the results are by channel. `arrived` gets each result
        as soon as it is there. Webhooks get the `headers` besides their own."""
        deliver_over = partial(
            self._deliver,
            payload=payload,
            message=message,
            keys=keys,
            schedule_name=schedule_name,
            usual_seconds=timeout_seconds,
            headers=headers,
        )
        if len(channels) == 1 and arrived is None:
            ((name, channel),) = channels.items()
            return {name: await deliver_over(name, channel)}

        async def deliver_one(name: str, channel: Channel) -> Delivery:
            result = await deliver_over(name, channel)
            if arrived is not None:
                await arrived(name, result)
            return result

        results = await asyncio.gather(*(deliver_one(*pair) for pair in channels.items()))
        return dict(zip(channels, results, strict=True))

    async def _deliver(
        self,
        name: str,
        channel: Channel,
        *,
        payload: Any,
        message: Message,
        keys: Sequence[bytes],
        schedule_name: str | None,
        usual_seconds: float,
        headers: Mapping[str, str],
    ) -> Delivery:
        if isinstance(channel, WebhookTarget):
            return await self._webhooks.deliver(
                webhook_request(
                    channel,
                    payload,
                    message,
                    name,
                    keys=keys,
                    sent_at=self._clock(),
                    timeout_seconds=float(channel.timeout_seconds or usual_seconds),
                    headers=headers,
                )
            )
        values = values_of(payload, message, schedule_name)
        try:
            if isinstance(channel, ChatTarget):
                return await self._webhooks.deliver(
                    chat_request(channel, values, timeout_seconds=usual_seconds)
                )
            if self._email is None or self._sender is None:
                return failed(ErrorKind.SMTP, NO_RELAY)
            request = email_request(
                channel,
                values,
                message,
                name,
                sender=self._sender,
                sent_at=self._clock(),
                timeout_seconds=usual_seconds,
            )
            return await self._send_email(message.tenant, email_count(channel), request)
        except NotFilled as error:
            return failed(ErrorKind.PAYLOAD, str(error), is_permanent=True)

    async def _send_email(self, tenant: str, emails: int, request: EmailRequest) -> Delivery:
        assert self._email is not None
        if self._email_quota is None:
            return await self._email.deliver(request)
        taken = await self._email_quota.take(tenant, emails)
        if isinstance(taken, Delivery):
            return taken
        result = await self._email.deliver(request)
        if taken is not None and not result.is_delivered and result.kind not in _MAYBE_SENT:
            await self._email_quota.give_back(tenant, emails, taken)
        return result


def names_schedule(channel: Channel) -> bool:
    """Whether the texts of a channel have the name of the schedule."""
    texts = [getattr(channel, field, None) for field in ("subject", "text", "html")]
    return any("schedule.name" in text for text in texts if text)
