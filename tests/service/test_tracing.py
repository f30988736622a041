"""One trace goes from a request through a message and its handler to a webhook."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar.testing import AsyncTestClient
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.channel.receiver import allow_local_deliveries, receiver
from tests.kit.api import bearer, new_key
from tests.kit.waiting import eventually
from tests.stores.home import KINDS, Home
from tickwork import Message, spans
from tickwork.api import create_api
from tickwork.clock import now
from tickwork.core import when
from tickwork.facade.app import Tickwork, engine_of
from tickwork.wiring import Settings, open_store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

CALLER_TRACE, CALLER_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """The spans of this process, which traces."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.start(provider)
    yield exporter
    spans.stop()


async def test_one_trace_spans_request_message_handler_and_webhook(
    home: Home, exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_local_deliveries(monkeypatch)
    app = Tickwork(home.url)
    app.queue("orders")

    @app.on("orders")
    async def ship(message: Message[object]) -> None:
        await app.events.publish("order.shipped", message.body)

    settings = Settings(database=home.url)
    api = create_api(now=now, limits=when.Limits(), open_store=lambda: open_store(settings))
    async with receiver() as server:
        await app.endpoints.create("shop", url=server.url + "/hook", types=["order.*"])
        key = await new_key(await engine_of(app).open())
        async with app.running(drain_seconds=0.0), AsyncTestClient(api) as client:
            answer = await client.post(
                "/v1/queues/orders/messages",
                json={"body": {"id": 7}},
                headers=bearer(key) | {"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"},
            )
            assert answer.status_code == 201
            await eventually(lambda: server.requests, what="the webhook")
            names = {
                "POST /v1/queues/{queue}/messages",
                "send orders",
                "wait orders",
                "process orders",
                "wait tickwork.endpoints",
                "process tickwork.endpoints",
                "POST",
            }
            await eventually(lambda: not names - _by_name(exported).keys(), what="the spans")
        found = _by_name(exported)
        (request, _) = server.requests[0]
    await app.close()
    parents = {
        "send orders": "POST /v1/queues/{queue}/messages",
        "wait orders": "send orders",
        "process orders": "send orders",
        "process tickwork.endpoints": "process orders",
        "POST": "process tickwork.endpoints",
    }
    for name, parent in parents.items():
        below = found[name].parent
        assert below is not None
        assert below.span_id == _id(found[parent]), name
    top = found["POST /v1/queues/{queue}/messages"]
    assert top.parent is not None
    assert f"{top.parent.span_id:016x}" == CALLER_SPAN
    assert top.attributes is not None
    assert top.attributes["http.response.status_code"] == 201
    assert {f"{found[name].context.trace_id:032x}" for name in names} == {CALLER_TRACE}
    carried = f"00-{CALLER_TRACE}-{_id(found['POST']):016x}-01"
    assert request.headers["traceparent"] == carried


async def test_without_tracing_nothing_is_carried(home: Home) -> None:
    assert not spans.is_on()
    app = Tickwork(home.url)
    await app.queue("plain").send({"a": 1})
    store = await engine_of(app).open()
    (stored,) = (await store.messages.peek(engine_of(app).scope, "plain", 1))[:1]
    assert stored.traceparent is None
    await app.close()


def _by_name(exported: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exported.get_finished_spans()}


def _id(span: ReadableSpan) -> int:
    return int(span.context.span_id)
