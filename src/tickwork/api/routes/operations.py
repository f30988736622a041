"""For those who watch the process: does it live, can it serve.

Numbers about this process, for Prometheus.

Open to this machine only, until there are keys: they tell how busy the process is, and the names of
its queues. What a proxy brings comes from elsewhere, wherever the proxy stands.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.exceptions import PermissionDeniedException
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tickwork import __version__
from tickwork.api.context import Context
from tickwork.api.problems import described
from tickwork.api.schemas import Health, Readiness


@get(
    "/healthz",
    operation_id="healthz",
    summary="Does it live?",
    tags=["health"],
    sync_to_thread=False,
)
def healthz() -> Health:
    """Answers as long as the process does."""
    return Health(status="ok", version=__version__)


@get(
    "/readyz",
    operation_id="readyz",
    summary="Can it serve?",
    tags=["health"],
    responses=described(503),
)
async def readyz(context: NamedDependency[Context]) -> Readiness:
    """Answers once the database does; until then 503."""
    if context.store is not None:
        await context.store.meta()
    return Readiness(status="ready")


_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip")


@get(
    "/metrics",
    operation_id="metrics",
    summary="How is it doing?",
    tags=["health"],
    media_type=CONTENT_TYPE_LATEST,
    responses=described(403),
    sync_to_thread=True,
)
def metrics(request: Request[Any, Any, Any], context: NamedDependency[Context]) -> Response[bytes]:
    """Counters, gauges and histograms in the text format of Prometheus; 403 to other machines."""
    host = request.client.host if request.client else ""
    if not is_loopback(host) or any(name in request.headers for name in _PROXIED):
        raise PermissionDeniedException
    return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
