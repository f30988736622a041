"""The optional dependencies: imports that name the extra to install if they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tickwork.errors import MissingExtra

_CLIENT_PACKAGES = frozenset({"anyio", "h11", "httpcore"})
_DELIVERY_PACKAGES = frozenset({"aiohttp", "aiosmtplib", "cryptography", "yarl"})
_OTEL_PACKAGES = frozenset({"opentelemetry"})
_SERVER_PACKAGES = frozenset({"jwt", "litestar", "uvicorn"})
_POSTGRES_PACKAGES = frozenset({"asyncpg"})
_TOP_PACKAGES = frozenset({"textual"})


@contextmanager
def client_extra(feature: str) -> Iterator[None]:
    """Wraps imports of the HTTP client. `MissingExtra` if it is not installed."""
    with _extra("client", _CLIENT_PACKAGES, feature, "HTTP client"):
        yield


@contextmanager
def server_extra(feature: str) -> Iterator[None]:
    """Wraps imports of the HTTP server. `MissingExtra` if it is not installed."""
    with _extra("server", _SERVER_PACKAGES, feature, "HTTP server"):
        yield


@contextmanager
def top_extra(feature: str) -> Iterator[None]:
    """Wraps imports of the live view. `MissingExtra` if it is not installed."""
    with _extra("top", _TOP_PACKAGES, feature, "terminal screen"):
        yield


@contextmanager
def postgres_extra() -> Iterator[None]:
    """Wraps imports of the PostgreSQL driver. `MissingExtra` if it is not installed."""
    with _extra("postgres", _POSTGRES_PACKAGES, "postgresql://", "driver"):
        yield


@contextmanager
def otel_extra() -> Iterator[None]:
    """Wraps imports of OpenTelemetry. `MissingExtra` if it is not installed."""
    with _extra("otel", _OTEL_PACKAGES, "tracing", "OpenTelemetry SDK"):
        yield


@contextmanager
def delivery_extra(feature: str) -> Iterator[None]:
    """Wraps imports of what delivers outside. `MissingExtra` if it is not installed."""
    with _extra("delivery", _DELIVERY_PACKAGES, feature, "HTTP and SMTP client"):
        yield


NO_DELIVERY = "this installation cannot deliver webhooks, email and chat"
INSTALL_DELIVERY = "pip install 'tickwork[delivery]'"


def has_delivery_extra() -> bool:
    """Whether what delivers outside is installed. Imports nothing: that takes half a second."""
    return all(find_spec(package) is not None for package in _DELIVERY_PACKAGES)


@contextmanager
def _extra(extra: str, packages: frozenset[str], feature: str, dependency: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise MissingExtra(feature, dependency, extra) from None
