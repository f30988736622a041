"""Thousands of random channel outcomes in virtual time: no channel whose success is recorded is
sent again for its slot, and at most once is never repeated.

Receivers fail, workers lose their claims before and after answers, and dead letters are replayed.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from tests.service.claims_made import ClaimsMade
from tickwork.core.answers.ids import without_prefix
from tickwork.core.delivery.outcome import Delivery, answered
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import DEFAULT, Claim, Fate, Scope
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
QUEUE = "tickwork.deliveries"
CHANNELS, SCHEDULES = 3, 40
"""Channels of a schedule, and schedules of each kind: all of them are due at once."""

HOURS, HOURS_OF_A_SOAK = 4, 24 * 4
HOOKS = [{"type": "webhook", "url": f"https://example.com/{at}"} for at in range(CHANNELS)]
SEVERAL = {"type": "channels", "channels": HOOKS}
RETRY = {"max_attempts": 3, "backoff": Fixed(60)}
KINDS: dict[str, Any] = {
    "plain": {"target": SEVERAL, "retry": RETRY},
    "retried": {"target": {**SEVERAL, "retry_failed_channels": True}, "retry": RETRY},
    "once": {"target": SEVERAL, "delivery": "at_most_once"},
}
DOWN, LOST, DEAD = 0.4, 0.1, 0.03
"""Shares of requests that fail, and during which the claim is lost or the message dies."""


class Receivers:
    """Answer at random, and judge each request by what is recorded when it comes."""

    def __init__(self, h: Harness, chance: random.Random) -> None:
        self._claims, self._chance = ClaimsMade(h), chance
        progress: Any = h.store.progress
        self._record = progress.record
        progress.record = self.record
        self.succeeded: set[tuple[str, str]] = set()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.repeated: list[tuple[str, str]] = []
        self.lost = 0
        deliveries: Any = h.deliveries
        deliveries.deliver = self.deliver

    async def record(self, scope: Scope, claim: Claim, work: str, rows: Mapping[str, str]) -> bool:
        is_recorded: bool = await self._record(scope, claim, work, rows)
        if is_recorded:
            self.succeeded |= {(work, name) for name in rows if "succeeded" in rows[name]}
        return is_recorded

    async def deliver(self, request: WebhookRequest | EmailRequest) -> Delivery:
        assert isinstance(request, WebhookRequest)
        work = unquote(request.headers["Idempotency-Key"])
        sent = (work, f"channel:webhook[{request.url[-1]}]")
        self.requests[sent] += 1
        if sent in self.succeeded:
            self.repeated.append(sent)
        dice = self._chance.random()
        if dice < LOST:
            fate = Fate.RELEASE if dice > DEAD else Fate.DEAD
            if await self._claims.end(request, fate):
                self.lost += 1
        return answered(503 if self._chance.random() < DOWN else 200, {}, "", START)


async def deliver_at_random(app: Tickwork, database: str | None, *, hours: int, seed: int) -> None:
    chance = random.Random(seed)
    sys.stderr.write(f"seed {seed}\n")
    async with harness(app, database=database, start=START) as h:
        receivers = Receivers(h, chance)
        kinds = {}
        for kind in KINDS:
            for number in range(SCHEDULES):
                made = await app.schedules.create(
                    name=f"{kind}-{number}",
                    cron_expr="0 * * * *",
                    **KINDS[kind],
                )
                kinds[str(without_prefix(made.id))] = kind
        for _ in range(hours):
            await h.advance(hours=1)
            await app.dead_letters.replay(QUEUE)
        for schedule in await app.schedules.list():
            await app.schedules.pause(schedule.id)
        await h.advance(hours=1)  # The last attempts.
        counts = await h.store.queues.counts(DEFAULT, QUEUE)
    sys.stderr.write(f"{receivers.requests.total()} requests, {receivers.lost} lost claims\n")
    assert receivers.repeated == []
    once = {
        effect: n for effect, n in receivers.requests.items() if kinds[effect[0][:36]] == "once"
    }
    assert {*once.values()} == {1}
    assert max(receivers.requests.values()) > 1
    assert receivers.requests.total() > hours * SCHEDULES * len(KINDS) * CHANNELS
    assert receivers.lost > hours * SCHEDULES / 2
    assert len(receivers.succeeded) > hours * SCHEDULES
    assert (counts.ready, counts.delayed, counts.claimed) == (0, 0, 0)


@pytest.mark.one_store("sqlite")
async def test_no_recorded_channel_is_sent_again_whatever_happens(
    app: Tickwork, database: str | None
) -> None:
    await deliver_at_random(app, database, hours=HOURS, seed=1)


@pytest.mark.soak
async def test_no_recorded_channel_is_sent_again_in_four_days(
    app: Tickwork, database: str | None
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    await deliver_at_random(app, database, hours=HOURS_OF_A_SOAK, seed=seed)
