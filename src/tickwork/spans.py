"""Spans of OpenTelemetry: a request, a send, the wait for a claim, a handler, a delivery.

A message carries the `traceparent` of its sender (W3C Trace Context), so one trace goes from a
request through queues and handlers to the receiver of a webhook. Without `start` there are no
spans, nothing is imported, and every call here costs a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as Span
    from opentelemetry.trace import SpanContext, Tracer, TracerProvider

TRACEPARENT = "traceparent"
"""Name of the HTTP header."""

SpanKind = Literal["server", "client", "producer", "consumer"]
Attributes = Mapping[str, str | int | bool]

_tracer: Tracer | None = None


def start(provider: TracerProvider | None = None) -> None:
    """Traces from now on. Without a `provider` the spans go to the one that the process has set up,
    else over OTLP to where the variables `OTEL_…` say. `ModuleNotFoundError` without the
    packages."""
    global _tracer
    from opentelemetry import trace

    if provider is None:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = _otlp_provider()
            trace.set_tracer_provider(provider)
    _tracer = provider.get_tracer("tickwork")


def _otlp_provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = Resource.create({SERVICE_NAME: "tickwork"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def stop() -> None:
    """Traces no longer."""
    global _tracer
    _tracer = None


def is_on() -> bool:
    """Whether this process traces."""
    return _tracer is not None


def span(
    name: str,
    kind: SpanKind,
    attributes: Attributes | None = None,
    *,
    parent: str | None = None,
    links: Sequence[str] = (),
) -> AbstractContextManager[Span | None]:
    """A span around the block, below the current one or the `parent`; None if there is no trace.
    `links` are other spans that led to it. `parent` and `links` are as in `traceparent`."""
    if _tracer is None:
        return _NO_SPAN
    from opentelemetry import trace

    return _tracer.start_as_current_span(
        name,
        context=_context(parent),
        kind=getattr(trace.SpanKind, kind.upper()),
        attributes=attributes,
        links=[trace.Link(_span_context(link)) for link in links],
    )


_NO_SPAN: AbstractContextManager[None] = nullcontext()


def wait_span(name: str, since: datetime, until: datetime, *, parent: str | None) -> None:
    """Records a span that is over: from one instant of the database's clock to another."""
    if _tracer is None or parent is None:
        return
    began, ended = (int(instant.timestamp() * 1e9) for instant in (since, until))
    waited = _tracer.start_span(name, context=_context(parent), start_time=min(began, ended))
    waited.end(ended)


def traceparent() -> str | None:
    """The current span as another process gets it; None if there is no trace."""
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _context(parent: str | None) -> Context | None:
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({TRACEPARENT: parent})


def _span_context(given: str) -> SpanContext:
    from opentelemetry import trace

    return trace.get_current_span(_context(given)).get_span_context()
