"""The settings of a process: `app.run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict


class RunOptions(TypedDict, total=False):
    """Settings of a process: `app.run`. They are the flags of `tickwork run`."""

    roles: Annotated[
        str | Sequence[str] | None,
        "Roles: api, http, scheduler, worker; default scheduler,worker.",
    ]
    log_format: Annotated[
        Literal["json", "console"] | None,
        "Log format: json or console; default console on a terminal.",
    ]
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, "Log level; default info."
    ]
    host: Annotated[str | None, "Address the API listens on; default 127.0.0.1."]
    port: Annotated[int | None, "Port of the API, with the role api; default 8080."]
    http_port: Annotated[int | None, "Port of HTTP handlers, with the role http; default 8090."]
    metrics_port: Annotated[
        int | None, "Port to serve metrics on; 0 for any free port; default off."
    ]
    metrics_host: Annotated[str | None, "Address to serve metrics on; default 127.0.0.1."]
    drain_seconds: Annotated[
        float | None, "Seconds running handlers may take to finish on shutdown; default 30."
    ]
    wait_seconds: Annotated[
        float | None, "Seconds to wait for a database that is away; default: until it is back."
    ]
