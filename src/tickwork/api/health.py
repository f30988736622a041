"""For those who watch the process: does it live, can it serve."""

from __future__ import annotations

from litestar import get
from litestar.di import NamedDependency

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
