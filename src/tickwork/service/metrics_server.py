"""Metrics over HTTP, from a thread of their own: they answer also while the event loop does not."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from tickwork.errors import FieldError, InvalidInput
from tickwork.service.lines import Line

_log = logging.getLogger("tickwork")


@contextmanager
def serving(registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serves meanwhile; gives the port, which is any that is free if it is 0. `InvalidInput` if
    it cannot be had."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number).lower() if number and number > 0 else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("metrics_port", fault)]) from None
    _log.info(Line("metrics are served", host=host, port=server.server_port))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
