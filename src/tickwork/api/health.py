"""For those who watch the process: does it live, can it serve."""

from __future__ import annotations

from litestar import get

from tickwork import __version__
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
    "/readyz", operation_id="readyz", summary="Can it serve?", tags=["health"], sync_to_thread=False
)
def readyz() -> Readiness:
    """Answers once the process has started; nothing it serves needs more than that."""
    return Readiness(status="ready")
