"""Builds what delivers outside from settings: the guard, the secrets, the channels of a worker.

The packages that it needs are optional, so they are imported when they are needed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from tickwork import clock
from tickwork.core.delivery.email_provider import PROVIDERS
from tickwork.core.delivery.pace import EMAIL_CONCURRENCY, Limit, Shares
from tickwork.errors import FieldError, InvalidInput
from tickwork.extras import INSTALL_DELIVERY, NO_DELIVERY, delivery_extra, has_delivery_extra
from tickwork.ops.outside import Outside
from tickwork.settings import Settings
from tickwork.wiring.backend import backend_of

if TYPE_CHECKING:
    from tickwork.app.declarations import Consumer
    from tickwork.channel.channels import Channels, EmailSink, WebhookSink
    from tickwork.channel.guard import Guard
    from tickwork.channel.secrets import SecretBox
    from tickwork.channel.services import RemoteService
    from tickwork.channel.webhook import WebhookChannel
    from tickwork.service.delivery.lease_pager import LeasePager
    from tickwork.service.worker.found_consumers import FindConsumers
    from tickwork.store.contract import Store


def guard(settings: Settings) -> Guard:
    """Decides which addresses deliveries may reach."""
    with delivery_extra("webhooks"):
        import yarl  # noqa: F401

        from tickwork.channel.guard import Guard

    return Guard(settings.allow_targets)


def secret_box(settings: Settings, *, make_key: bool = True) -> SecretBox:
    """Encrypts and decrypts secrets. On SQLite a key file is made beside the database, unless
    `make_key` is false; on PostgreSQL the key must be set, because several machines need the same
    one. Raises `InvalidInput` if there is no key."""
    with delivery_extra("secrets"):
        from tickwork.channel.secrets import SecretBox, key_in_file

    if settings.secret_key is not None:
        return SecretBox.from_text(settings.secret_key)
    path = backend_of(settings).key_file()
    if path is None:
        fault = "is missing; set it to 32 random bytes in base64, the same on every machine"
        raise InvalidInput([FieldError("TICKWORK_SECRET_KEY", fault)])
    return SecretBox.from_text(key_in_file(path, make_key=make_key), f"the key file {path.name}")


def outside_of(settings: Settings) -> Outside:
    """What verbs may reach outside with these settings."""
    return Outside(
        check_url=lambda url: guard(settings).check_url(url),
        public_url=lambda: settings.public_url,
        secret_box=partial(secret_box, settings),
        secret_reader=partial(secret_box, settings, make_key=False),
        webhook_sink=partial(webhook_sink, settings),
        owner_targets=settings.owner_targets,
    )


def webhook_channel(settings: Settings) -> WebhookChannel:
    """Sends webhooks to addresses that the guard allows."""
    with delivery_extra("webhooks"):
        from tickwork.channel.webhook import WebhookChannel

    return WebhookChannel(guard(settings))


def webhook_sink(settings: Settings) -> WebhookSink:
    """Sends webhooks; made in a thread when the first one is sent, because that imports half a
    second of code, and an event loop must not stand still so long."""
    from tickwork.channel.channels import LateSink

    return LateSink(partial(webhook_channel, settings))


def remote_service(settings: Settings, name: str, url: str, *, is_in_code: bool) -> RemoteService:
    """A service over HTTP. The host of a URL in the app's code may be a private one; a URL in
    settings is guarded as those of webhooks."""
    with delivery_extra(f"service {name}"):
        from tickwork.channel.guard import host_of
        from tickwork.channel.services import RemoteService

    if is_in_code:
        settings = structs.replace(settings, allow_targets=(*settings.allow_targets, host_of(url)))
    return RemoteService(name, url, guard(settings))


def email_sink(settings: Settings) -> EmailSink | None:
    """Sends email through the relay or the provider of these settings; None without one. Raises
    `InvalidInput` for settings that do not fit together."""
    name = settings.email_provider or "smtp"
    if name == "smtp":
        if settings.smtp_url is None and settings.email_provider is None:
            return None
        from tickwork.channel.email import EmailChannel
        from tickwork.channel.relay import Relay

        relay = Relay.from_url(_needed(settings.smtp_url, "SMTP_URL", name))
        _needed(settings.email_from, "EMAIL_FROM", settings.email_provider)
        return EmailChannel(relay)
    from tickwork.channel.channels import EmailProvider
    from tickwork.channel.guard import host_of

    provider = PROVIDERS[name]
    key = _needed(settings.email_key, "EMAIL_KEY", name)
    url = _needed(settings.email_url or provider.url, "EMAIL_URL", name)
    _needed(settings.email_from, "EMAIL_FROM", name)
    # The operator has chosen this host, so that it may be a private one; others are refused.
    own = structs.replace(settings, allow_targets=(host_of(url),))
    guard(own).check_url(url, field="TICKWORK_EMAIL_URL")
    return EmailProvider(provider, webhook_sink(own), url=url, key=key)


def _needed(value: str | None, name: str, provider: str | None) -> str:
    if value is None:
        needs = "SMTP_URL" if provider is None else f"EMAIL_PROVIDER={provider}"
        fault = f"is missing; TICKWORK_{needs} needs it"
        raise InvalidInput([FieldError(f"TICKWORK_{name}", fault)])
    return value


class OpenDeliveries(NamedTuple):
    """What a worker needs to deliver: its channels, the consumers that use them, and a function
    that finds the queues that push."""

    channels: Channels
    consumers: list[Consumer]
    find: FindConsumers


async def open_deliveries(store: Store, settings: Settings) -> OpenDeliveries | None:
    """What a worker delivers with; the queues exist then. None as for `webhook_deliveries`: that is
    logged if there may be something to deliver."""
    from tickwork.ops.alerts import ensure_alerts
    from tickwork.ops.endpoints import ensure_endpoints
    from tickwork.ops.schedules.outside import ensure_deliveries, has_deliveries

    made = webhook_deliveries(store, settings)
    if made is None:
        if await has_deliveries(store):
            logging.getLogger("tickwork").warning("%s: %s", NO_DELIVERY, INSTALL_DELIVERY)
    else:
        await ensure_deliveries(store)
        await ensure_endpoints(store)
        await ensure_alerts(store)
    return made


def lease_pager(settings: Settings) -> LeasePager | None:
    """Sends the alerts of a node that cannot reach its database; None if the packages are not
    installed. It has its own connections: it runs on the thread of the heartbeat."""
    if not has_delivery_extra():
        return None
    from tickwork.channel.channels import Channels
    from tickwork.service.delivery.lease_pager import LeasePager

    webhooks = webhook_sink(settings)
    channels = Channels(webhooks, email_sink(settings), sender=settings.email_from, clock=clock.now)
    return LeasePager(channels, partial(secret_box, settings, make_key=False))


def webhook_deliveries(store: Store, settings: Settings) -> OpenDeliveries | None:
    """What a worker delivers with; None if the packages are not installed. Other nodes deliver
    then."""
    if not has_delivery_extra():
        return None
    from tickwork.channel.channels import Channels
    from tickwork.channel.guard import Guard
    from tickwork.channel.host_limits import HostLimits
    from tickwork.channel.receivers import ReceiverGate
    from tickwork.ops.quotas import EmailQuotas
    from tickwork.service.delivery.alerts import Alerter, alerts_consumer
    from tickwork.service.delivery.deliver import Deliverer, deliveries_consumer
    from tickwork.service.delivery.endpoints import EndpointDeliverer, endpoints_consumer
    from tickwork.service.delivery.push import Pusher
    from tickwork.service.delivery.slots import SlotDeliverer

    Guard(settings.allow_targets)  # Refuses invalid ones now.
    webhooks = webhook_sink(settings)
    channels = Channels(
        webhooks,
        email_sink(settings),
        sender=settings.email_from,
        clock=clock.now,
        email_quota=EmailQuotas(store),
    )
    most = settings.delivery_concurrency
    shares = Shares(most, settings.delivery_tenant_concurrency or max(most // 2, 1))
    permits = most + shares.reserve
    limits = HostLimits(
        Limit(settings.host_rate_per_second, settings.host_concurrency),
        clock=clock.now,
        shares=shares,
    )
    box = partial(secret_box, settings)
    to_endpoints = EndpointDeliverer(
        store, webhooks, box, limits, clock=clock.now, monotonic=clock.monotonic
    )
    to_endpoint = SlotDeliverer(store, to_endpoints, public_url=settings.public_url).deliver
    consumers = [
        deliveries_consumer(
            Deliverer(
                store,
                channels,
                box,
                limits,
                to_endpoint,
                email_limit=Limit(settings.email_rate_per_second, EMAIL_CONCURRENCY),
                public_url=settings.public_url,
            ),
            permits,
            ReceiverGate(limits.receivers),
        ),
        endpoints_consumer(to_endpoints, permits, ReceiverGate(limits.receivers)),
        alerts_consumer(Alerter(store, channels, box)),
    ]
    pusher = Pusher(store, to_endpoints, permits, partial(ReceiverGate, limits.receivers))
    return OpenDeliveries(channels, consumers, pusher.find)
