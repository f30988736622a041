"""A server that traces sends its spans over OTLP to a receiver, which can decode them."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.api.test_server import client_of, key_of, started
from tests.channel.receiver import receiver
from tests.kit.api import bearer
from tests.kit.process import Children

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def test_the_spans_of_a_request_arrive_at_a_receiver_of_otlp(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiver() as collector:
        monkeypatch.setenv("TICKWORK_TRACING", "on")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "front desk")
        server, url = await started(children, tmp_path, "--roles", "api")
        headers = bearer(await key_of(server)) | {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        async with client_of(url, headers) as client:
            await client.put("/v1/queues/q", json={})
            sent = await client.post("/v1/queues/q/messages", json={"body": {"secret": "canary"}})
        assert sent.status_code == 201
        server.terminate()
        await server.succeeded()  # It sends what it has before it ends.
    exported = [ExportTraceServiceRequest.FromString(body) for _, body in collector.requests]
    assert {request.path for request, _ in collector.requests} == {"/v1/traces"}
    found = [resource_span for one in exported for resource_span in one.resource_spans]
    names = {
        value.value.string_value
        for resource_span in found
        for value in resource_span.resource.attributes
    }
    assert "front desk" in names
    spans = {
        span.name: span
        for resource_span in found
        for part in resource_span.scope_spans
        for span in part.spans
    }
    request = spans["POST /v1/queues/{queue}/messages"]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert not [body for _, body in collector.requests if b"canary" in body]
    assert server.stderr() == ""
