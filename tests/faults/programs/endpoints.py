"""An app that only delivers to endpoints, run as a worker until it is killed.

    python -m tests.faults.programs.endpoints URL [POINT]

Breakers open for moments only, and a probe by a dead worker is over before its node is missed.

Points: those of `exactly_once` around a claim and a settlement; `probing` and `probed` around the
question whether this one may probe; `sending` and `answered` around each request; `recording` and
`recorded` around each record of attempts; `reaping` and `reaped`. `await` and `statement`, which
are many, are reached only if they are given.
"""

import sys
from typing import Any

from tests.faults.programs import awaits, statements
from tests.faults.programs.exactly_once import (
    between,
    blame_nobody,
    find_the_dead_soon,
    stop_at_commits,
)
from tickwork.channel.channels import LateSink
from tickwork.core.delivery import breaker, endpoint_request, pace
from tickwork.facade.app import Tickwork
from tickwork.service.delivery import endpoints as endpoint_deliveries
from tickwork.service.delivery.endpoints import EndpointDeliverer
from tickwork.store.postgres.endpoints import endpoints as postgres_endpoints
from tickwork.store.postgres.reaper import PostgresReaper
from tickwork.store.sqlite.endpoints import endpoints as sqlite_endpoints
from tickwork.store.sqlite.reaper import SqliteReaper

PROGRAM = "tests.faults.programs.endpoints"
POINTS = {
    "claimed": 4, "sending": 4, "answered": 4, "recording": 4, "recorded": 4, "settling": 4,
    "settled": 4, "probing": 2, "probed": 2, "reaping": 20, "reaped": 20,
    awaits.POINT: 100, statements.POINT: 200,
}  # fmt: skip
"""The points at which a worker is killed, and how often it may pass each before."""

TIMEOUT_SECONDS, PROBE_SECONDS = 10, 0.6
"""Seconds that a request may take, and for which others wait while one probes."""

OPEN_SECONDS_MIN, OPEN_SECONDS_MAX = 0.1, 0.3
SPREAD_SECONDS = 0.02
TOLERANCE_SECONDS = max(SPREAD_SECONDS, 0.1 * OPEN_SECONDS_MAX)
"""Seconds before its own time at which a message counts as due."""


def stop_at_deliveries() -> None:
    """Puts points around what a delivery asks of others."""
    wrapped: tuple[tuple[Any, str, str, str], ...] = (
        (sqlite_endpoints.SqliteEndpoints, "probe", "probing", "probed"),
        (postgres_endpoints.PostgresEndpoints, "probe", "probing", "probed"),
        (sqlite_endpoints.SqliteEndpoints, "record", "recording", "recorded"),
        (postgres_endpoints.PostgresEndpoints, "record", "recording", "recorded"),
        (SqliteReaper, "reap", "reaping", "reaped"),
        (PostgresReaper, "reap", "reaping", "reaped"),
        (LateSink, "deliver", "sending", "answered"),
    )
    for kind, name, before, after in wrapped:
        setattr(kind, name, between(before, getattr(kind, name), after))


def open_for_moments() -> None:
    """Breakers, probes and limits count in fractions of a second."""
    shorter: tuple[tuple[Any, dict[str, float]], ...] = (
        (
            breaker,
            {"OPEN_SECONDS_MIN": OPEN_SECONDS_MIN, "OPEN_SECONDS_MAX": OPEN_SECONDS_MAX},
        ),
        (
            endpoint_request,
            {
                "_SPREAD_MIN_SECONDS": SPREAD_SECONDS,
                "PROBE_GRACE_SECONDS": PROBE_SECONDS - TIMEOUT_SECONDS,
            },
        ),
        (endpoint_deliveries, {"ENDPOINT_KEPT_SECONDS": 0.05}),
        (pace, {"RETURN_SECONDS_MIN": 0.02}),
        (sqlite_endpoints, {"PULLED_AGAIN_SECONDS": 0.2}),
        (postgres_endpoints, {"PULLED_AGAIN_SECONDS": 0.2}),
    )
    for module, values in shorter:
        assert vars(module).keys() >= values.keys()
        vars(module).update(values)


def main(url: str, *points: str) -> None:
    if statements.POINT in points:
        statements.stop_before_statements()
    if awaits.POINT in points:
        awaits.stop_at_awaits(EndpointDeliverer)
    stop_at_commits()
    stop_at_deliveries()
    find_the_dead_soon()
    blame_nobody()
    open_for_moments()
    Tickwork(url).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
