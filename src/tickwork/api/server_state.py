"""What the application serves with, injected as `server`; and the context of a caller's verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from litestar import Litestar
from litestar.di import NamedDependency
from prometheus_client import CollectorRegistry

from tickwork import clock
from tickwork.api.rates import RequestGate
from tickwork.app.payloads import PayloadOf
from tickwork.core import when
from tickwork.core.access import Caller
from tickwork.core.http.client_address import TrustedProxies
from tickwork.core.types.declared import UnknownTypes
from tickwork.errors import StoreUnavailable
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.context import Context, no_types
from tickwork.ops.outside import NO_OUTSIDE, Outside
from tickwork.ops.pull import Puller
from tickwork.ops.stores import Store
from tickwork.ops.stream import StreamWatch


@dataclass(frozen=True)
class AppTypes:
    """The types that the app of this process declares for the queues of its tenant."""

    tenant: str
    payload_of: PayloadOf


@dataclass
class ServerState:
    """The clock, the limits for schedules, the store and who checks keys while the application
    serves, and the metrics of this process. `is_on_loopback`: it listens on this machine only.
    What `trusted_proxies` say about their clients is believed. `is_stopping`: streams end, so that
    the server can. `types` are known if it runs an app."""

    now: Callable[[], datetime]
    limits: when.Limits
    opened: Store | None = None
    authenticator: Authenticator | None = None
    is_on_loopback: bool = False
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    outside: Outside = NO_OUTSIDE
    gate: RequestGate | None = None
    types: AppTypes | None = None
    unknown_types: UnknownTypes = UnknownTypes.REFUSE
    streams: StreamWatch = field(default_factory=StreamWatch)
    is_stopping: bool = False
    puller: Puller = field(default_factory=lambda: Puller(uuid4(), clock.monotonic))

    @property
    def store(self) -> Store:
        """The open store. Raises `StoreUnavailable` if this process has none."""
        if self.opened is None:
            raise StoreUnavailable("this process has no database")
        return self.opened

    def context(self, caller: Caller) -> Context:
        """What the verbs of a caller work with."""
        types: PayloadOf = no_types
        if self.types is not None and self.types.tenant == caller.tenant:
            types = self.types.payload_of
        return Context(
            self.store,
            caller.scope,
            self._get_limits,
            types,
            self.now,
            self.outside,
            self._get_unknown_types,
        )

    def _get_unknown_types(self) -> UnknownTypes:
        return self.unknown_types

    def _get_limits(self) -> when.Limits:
        return self.limits


def context_of_request(
    server: NamedDependency[ServerState], caller: NamedDependency[Caller]
) -> Context:
    """The dependency `context`."""
    return server.context(caller)


def stop_streams(api: Litestar) -> None:
    """Ends the open streams, which would keep the server from stopping."""
    server: ServerState = api.state.server
    server.is_stopping = True
