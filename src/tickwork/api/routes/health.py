"""Routes for health checks and Prometheus metrics.

The metrics show the load of the process and the names of its queues, so they are the operator's.
"""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tickwork import __version__
from tickwork.api.access import SECURITY_SCHEME
from tickwork.api.problems import described
from tickwork.api.schemas import Health, Readiness
from tickwork.api.server_state import ServerState
from tickwork.ops.cluster import roles_without_process


@get(
    "/healthz",
    opt={"permission": "open"},
    operation_id="healthz",
    summary="Liveness check",
    tags=["health"],
    responses=described(400),
    sync_to_thread=False,
)
def healthz() -> Health:
    """Responds while the process is running."""
    return Health(status="ok", version=__version__)


@get(
    "/readyz",
    opt={"permission": "open"},
    operation_id="readyz",
    summary="Readiness check",
    tags=["health"],
    responses=described(400, 503),
)
async def readyz(server: NamedDependency[ServerState]) -> Readiness:
    """Responds with 200 if the database answers, otherwise with 503. `missing` lists the roles that
    no live process has; this process serves requests without them."""
    return Readiness(status="ready", missing=await roles_without_process(server.store))


@get(
    "/metrics",
    opt={"permission": "admin", "open_on_loopback": True},
    security=[{SECURITY_SCHEME: ["admin"]}],
    operation_id="metrics",
    summary="Prometheus metrics",
    tags=["health"],
    media_type=CONTENT_TYPE_LATEST,
    responses=described(400, 401, 403),
    sync_to_thread=True,
)
def metrics(server: NamedDependency[ServerState]) -> Response[bytes]:
    """Returns metrics in the Prometheus text format. Needs no key if the server listens on a
    loopback address, the request comes through no proxy, and its `Host` is this machine."""
    return Response(generate_latest(server.registry), media_type=CONTENT_TYPE_LATEST)
