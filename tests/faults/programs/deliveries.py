"""An app that only delivers, run as a worker until it is killed.

    python -m tests.faults.programs.deliveries URL

Points: those of `exactly_once` around a claim and a settlement, `answered` (a receiver has answered
and nobody else knows it), `recording` and `recorded` around each record of progress.
"""

import sys
from functools import wraps
from typing import Any

from msgspec import structs

from tests.faults.programs.exactly_once import (
    between,
    blame_nobody,
    find_the_dead_soon,
    stop_at_commits,
)
from tests.kit.points import reach
from tickwork.channel.channels import Channels
from tickwork.core.delivery import channels
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.target import DELIVERIES_SETTINGS
from tickwork.core.message.backoff import Fixed
from tickwork.facade.app import Tickwork
from tickwork.service.delivery import deliver
from tickwork.store.postgres.messages.progress import PostgresProgress
from tickwork.store.sqlite.messages.progress import SqliteProgress

PROGRAM = "tests.faults.programs.deliveries"
POINTS = ("answered", "recording", "recorded", "settling", "settled")
SETTINGS = structs.replace(DELIVERIES_SETTINGS, max_retries=100, backoff=Fixed(0))
ENVIRONMENT = {
    "TICKWORK_ALLOW_TARGETS": "127.0.0.1",
    "TICKWORK_HOST_CONCURRENCY": "1000",
    "TICKWORK_HOST_RATE_PER_SECOND": "10000",
    "TICKWORK_SECRET_KEY": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ=",
}


def stop_at_records() -> None:
    """Puts points around each record, and after each answer."""
    kinds: tuple[type[Any], ...] = (SqliteProgress, PostgresProgress)
    for kind in kinds:
        kind.record = between("recording", kind.record, "recorded")
    plain = Channels._deliver

    @wraps(plain)
    async def answered(*arguments: Any, **named: Any) -> Delivery:
        result = await plain(*arguments, **named)
        reach("answered")
        return result

    vars_of: Any = Channels
    vars_of._deliver = answered


def retry_soon() -> None:
    """A failed delivery is tried again at once."""
    for module in (deliver, channels):
        assert hasattr(module, "DELIVERIES_SETTINGS")
        vars(module)["DELIVERIES_SETTINGS"] = SETTINGS


def main(url: str) -> None:
    stop_at_commits()
    stop_at_records()
    find_the_dead_soon()
    blame_nobody()
    retry_soon()
    Tickwork(url).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
