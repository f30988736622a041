"""Routes for health checks and Prometheus metrics.

Until there is authentication, only clients on this machine may read the metrics, because they show
the load of the process and the names of its queues. A request through a proxy counts as remote,
wherever the proxy runs.
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
from tickwork.ops.cluster import check_database


@get(
    "/healthz",
    operation_id="healthz",
    summary="Liveness check",
    tags=["health"],
    sync_to_thread=False,
)
def healthz() -> Health:
    """Responds while the process is running."""
    return Health(status="ok", version=__version__)


@get(
    "/readyz",
    operation_id="readyz",
    summary="Readiness check",
    tags=["health"],
    responses=described(503),
)
async def readyz(context: NamedDependency[Context]) -> Readiness:
    """Responds with 200 if the database answers, otherwise with 503."""
    if context.store is not None:
        await check_database(context.store)
    return Readiness(status="ready")


_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")


@get(
    "/metrics",
    operation_id="metrics",
    summary="Prometheus metrics",
    tags=["health"],
    media_type=CONTENT_TYPE_LATEST,
    responses=described(403),
    sync_to_thread=True,
)
def metrics(request: Request[Any, Any, Any], context: NamedDependency[Context]) -> Response[bytes]:
    """Returns metrics in the Prometheus text format; 403 for clients on other machines."""
    host = request.client.host if request.client else ""
    if not is_loopback(host) or any(name in request.headers for name in _PROXY_HEADERS):
        raise PermissionDeniedException
    return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
