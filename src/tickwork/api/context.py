"""The dependencies of routes, injected as `context`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from litestar import Litestar
from prometheus_client import CollectorRegistry

from tickwork import clock
from tickwork.api.rates import RequestGate
from tickwork.app.payloads import PayloadOf, no_types
from tickwork.channel.channels import WebhookSink
from tickwork.core import when
from tickwork.core.access import Caller
from tickwork.core.http.client_address import TrustedProxies
from tickwork.errors import StoreUnavailable
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.pull import Puller
from tickwork.ops.schedules.outside import NO_OUTSIDE, OutsideRules
from tickwork.ops.stores import Store
from tickwork.ops.stream import StreamWatch
from tickwork.ops.webhook_secret import Box


@dataclass(frozen=True)
class Outside:
    """What reaches the outside: which targets deliveries may have, what encrypts secrets, what only
    reads them and makes no key, and what sends webhooks."""

    rules: OutsideRules
    secret_box: Callable[[], Box]
    secret_reader: Callable[[], Box]
    webhook_sink: Callable[[], WebhookSink]


@dataclass(frozen=True)
class AppTypes:
    """The types that the app of this process declares for the queues of its tenant."""

    tenant: str
    payload_of: PayloadOf


@dataclass
class Context:
    """The clock, the limits for schedules, the store and who checks keys while the application
    serves, and the metrics of this process. `is_on_loopback`: it listens on this machine only.
    What `trusted_proxies` say about their clients is believed. `is_stopping`: streams end, so that
    the server can. `types` are known if it runs an app."""

    now: Callable[[], datetime]
    limits: when.Limits
    store: Store | None = None
    authenticator: Authenticator | None = None
    is_on_loopback: bool = False
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    outside: Outside | None = None
    gate: RequestGate | None = None
    types: AppTypes | None = None
    streams: StreamWatch = field(default_factory=StreamWatch)
    is_stopping: bool = False
    puller: Puller = field(default_factory=lambda: Puller(uuid4(), clock.monotonic))


def stop_streams(api: Litestar) -> None:
    """Ends the open streams, which would keep the server from stopping."""
    context: Context = api.state.context
    context.is_stopping = True


def store_of(context: Context) -> Store:
    """Returns the store; raises `StoreUnavailable` if this process has none."""
    if context.store is None:
        raise StoreUnavailable("this process has no database")
    return context.store


def outside_of(context: Context) -> Outside:
    """Returns what reaches the outside; raises `StoreUnavailable` if this process has nothing."""
    if context.outside is None:
        raise StoreUnavailable("this process makes no deliveries")
    return context.outside


def types_of(context: Context, caller: Caller) -> PayloadOf:
    """Returns the types that the payloads of a caller must fit."""
    is_known = context.types is not None and context.types.tenant == caller.tenant
    return context.types.payload_of if is_known and context.types is not None else no_types


def rules_of(context: Context) -> OutsideRules:
    """Returns which targets deliveries may have."""
    return NO_OUTSIDE if context.outside is None else context.outside.rules
