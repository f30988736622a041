"""A port to listen on: from then on a client that connects is served, or waits."""

from __future__ import annotations

import os
import socket

from tickwork.errors import FieldError, InvalidInput

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `InvalidInput` that names `host` or `port` if it cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError):
        fault = f"the host {host!r} is not known; choose another"
        raise InvalidInput([FieldError("host", fault)]) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("port", fault)]) from None
