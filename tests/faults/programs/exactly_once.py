"""An app whose every effect can be counted, run as a worker until it is killed.

    python -m tests.faults.programs.exactly_once URL SEED

Each input of `singles` writes a row and sends a message; those of `gathered` do so too, in batches
that also tell of themselves once; those of `splits` become batches, whose ends are told of. Now and
then a handler fails after all its work.

Points: `claiming`, `claimed` (it is committed, and nobody knows it here), `handling` (in the middle
of a handler), `settling`, `settled` (likewise), `refused` (an end came too late), and `statement`,
before each statement.
"""

import random
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from tests.faults.programs import statements
from tests.faults.tables import is_sqlite
from tests.kit.points import reach
from tests.kit.waiting import delay
from tickwork import Batch
from tickwork.app.message import Message, MessageBatch
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import SettleResult
from tickwork.errors import ClaimLost
from tickwork.facade.app import Tickwork
from tickwork.service import maintenance, node
from tickwork.service.worker import suspects
from tickwork.store.ids import new_id
from tickwork.store.postgres import reaper as postgres_reaper
from tickwork.store.postgres.messages import claim as postgres_claim
from tickwork.store.postgres.messages import settle as postgres_settle
from tickwork.store.sqlite import reaper as sqlite_reaper
from tickwork.store.sqlite.messages import claim as sqlite_claim
from tickwork.store.sqlite.messages import settle as sqlite_settle

CLAIMERS: tuple[type[Any], ...] = (sqlite_claim.Claimer, postgres_claim.Claimer)
SETTLERS: tuple[type[Any], ...] = (sqlite_settle.Settler, postgres_settle.Settler)

PROGRAM = "tests.faults.programs.exactly_once"
POINTS = ("claiming", "claimed", "handling", "settling", "settled", statements.POINT)
INPUTS = ("singles", "gathered", "splits")
CONSUMED = (*INPUTS, "parts", "parts.completed")
PARTS = 3
FAILURES = 0.1
TTL_SECONDS = 1.0
SOON_SECONDS = 0.02
SECONDS_MAX = 0.02
LOST_CLAIMS_MAX = 1_000


def build(url: str, chance: random.Random) -> Tickwork:
    """The app; what fails now and then is up to the chance."""
    app = Tickwork(url)
    often: dict[str, Any] = {"max_retries": 100, "backoff": Fixed(0)}
    for name in INPUTS:
        app.queue(name, **often, max_batch_size=5, max_batch_timeout=0)
    app.queue("parts", **often)
    app.queue("parts.completed", **often)
    outputs, tellings = app.queue("outputs"), app.queue("tellings")
    mark = "?, ?" if is_sqlite(url) else "$1, $2"
    insert = f"INSERT INTO effects VALUES ({mark})"

    async def perhaps_fail() -> None:
        reach("handling")
        await delay(chance.uniform(0, SECONDS_MAX))
        if chance.random() < FAILURES:
            raise ConnectionError("after all the work")

    @app.on("singles")
    async def single(message: Message[str]) -> None:
        with message.transaction() as rows:
            rows.execute(insert, message.body, "single")
        await outputs.send({"input": message.body})
        await perhaps_fail()

    @app.consumer("gathered")
    async def gather(batch: MessageBatch[str]) -> None:
        name = str(new_id())
        for number, message in enumerate(batch):
            if number % 2:
                message.transaction().execute(insert, message.body, name)
            message.send("outputs", {"input": message.body, "by": name})
        await tellings.send(name)
        await perhaps_fail()

    @app.on("splits")
    async def split(message: Message[str]) -> None:
        await app.batch("parts", [f"{message.body}/{number}" for number in range(PARTS)])
        await perhaps_fail()

    @app.on("parts")
    async def part(message: Message[str]) -> None:
        message.transaction().execute(insert, message.body, "part")
        await perhaps_fail()

    @app.on_completed("parts")
    async def done(batch: Batch) -> None:
        await outputs.send({"input": f"batch {batch.id}"})
        await perhaps_fail()

    return app


def stop_at_commits() -> None:
    """Puts points around what commits: before it is asked for, and when it is done and nobody
    here knows it yet."""
    for kind in CLAIMERS:
        kind.claim = between("claiming", kind.claim, "claimed")
    for kind in SETTLERS:
        for name in ("settle", "settle_jointly"):
            setattr(kind, name, between("settling", getattr(kind, name), "settled"))


def between(
    before: str, method: Callable[..., Awaitable[Any]], after: str
) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def asked(*arguments: Any, **named: Any) -> Any:
        reach(before)
        try:
            answer = await method(*arguments, **named)
        except ClaimLost:
            reach("refused")
            raise
        if answer != ():  # A claim that found nothing is no commit.
            reach(after)
        if isinstance(answer, SettleResult) and answer.refused:
            reach("refused")
        return answer

    return asked


def blame_nobody() -> None:
    """No message is to be dead because so many died with it."""
    for reaper in (sqlite_reaper, postgres_reaper):
        assert hasattr(reaper, "LOST_CLAIMS_MAX")
        vars(reaper)["LOST_CLAIMS_MAX"] = LOST_CLAIMS_MAX


def find_the_dead_soon() -> None:
    """A node that is killed is to be missed after a moment."""
    defaults = node.Node.__init__.__kwdefaults__
    assert defaults is not None
    assert "ttl_seconds" in defaults
    defaults["ttl_seconds"] = TTL_SECONDS
    maintenance.REAP_SECONDS = suspects.SUSPECT_POLL_SECONDS = SOON_SECONDS


def main(url: str, seed: str) -> None:
    statements.stop_before_statements()
    stop_at_commits()
    find_the_dead_soon()
    blame_nobody()
    build(url, random.Random(seed)).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
