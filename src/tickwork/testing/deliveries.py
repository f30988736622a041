"""Records deliveries outside instead of making them.

```python
h.deliveries.answer = lambda request: 503          # or a Delivery, or an exception's text
await h.advance(days=1)
assert [each.url for each in h.deliveries.webhooks] == [...]
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tickwork.app.declarations import Consumer
from tickwork.channel.channels import Channels
from tickwork.channel.host_limits import HostLimits
from tickwork.core.delivery.outcome import Delivery, ErrorKind, answered, failed
from tickwork.core.delivery.pace import Limit
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.ops.alerts import ensure_alerts
from tickwork.ops.endpoints import ensure_endpoints
from tickwork.ops.quotas import EmailQuotas
from tickwork.ops.schedules.outside import ensure_deliveries
from tickwork.service.delivery.alerts import Alerter, alerts_consumer
from tickwork.service.delivery.deliver import Deliverer, deliveries_consumer
from tickwork.service.delivery.endpoints import EndpointDeliverer, endpoints_consumer
from tickwork.service.delivery.push import Pusher
from tickwork.service.delivery.slots import SlotDeliverer
from tickwork.service.worker.found_consumers import FindConsumers
from tickwork.store.contract import Store
from tickwork.testing.clock import START, VirtualClock

Answer: TypeAlias = Delivery | int | str
"""The result of a delivery: a status, the text of a failed connection, or a whole result."""


class RecordedDeliveries:
    """The requests that would have been sent, in order. `answer` decides what becomes of each."""

    def __init__(self) -> None:
        self.webhooks: list[WebhookRequest] = []
        self.emails: list[EmailRequest] = []
        self.answer: Callable[[WebhookRequest | EmailRequest], Answer] = lambda _: 200

    async def deliver(self, request: WebhookRequest | EmailRequest) -> Delivery:
        """Records a request and returns its result."""
        if isinstance(request, WebhookRequest):
            self.webhooks.append(request)
        else:
            self.emails.append(request)
        result = self.answer(request)
        if isinstance(result, int):
            permanent = getattr(request, "permanent_statuses", frozenset[int]())
            return answered(result, {}, "", START, permanent_statuses=permanent)
        return failed(ErrorKind.CONNECT, result) if isinstance(result, str) else result

    async def close(self) -> None:
        """There is nothing to close."""


class PlainBox:
    """Stores secrets as they are: the store of a test is thrown away."""

    def encrypt(self, secret: str, tenant: str, row: str, field: str) -> bytes:
        return f"{tenant}/{row}/{field}/{secret}".encode()

    def decrypt(self, stored: bytes, tenant: str, row: str, field: str) -> str:
        return stored.decode().removeprefix(f"{tenant}/{row}/{field}/")


async def recording_consumers(
    store: Store, recorded: RecordedDeliveries, clock: VirtualClock, public_url: str
) -> tuple[list[Consumer], FindConsumers]:
    """The built-in consumers, and what finds those of queues that push. Hosts have no limits,
    because nothing is sent to them."""
    await ensure_deliveries(store)
    await ensure_endpoints(store)
    await ensure_alerts(store)
    channels = Channels(
        recorded,
        recorded,
        sender="tickwork@example.com",
        clock=clock.now,
        email_quota=EmailQuotas(store),
    )
    limits = HostLimits(Limit(), clock.now, line_seconds=0.0)
    to_endpoints = EndpointDeliverer(
        store,
        recorded,
        PlainBox,
        limits,
        clock=clock.now,
        monotonic=clock.monotonic,
        keeps=False,
    )
    to_endpoint = SlotDeliverer(store, to_endpoints, public_url=public_url).deliver
    consumers = [
        deliveries_consumer(
            Deliverer(store, channels, PlainBox, limits, to_endpoint, public_url=public_url)
        ),
        endpoints_consumer(to_endpoints),
        alerts_consumer(Alerter(store, channels, PlainBox)),
    ]
    return consumers, Pusher(store, to_endpoints).find
