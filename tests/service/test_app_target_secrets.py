"""Secrets in the target of a schedule are stored encrypted, shown as `***`, and sent as given."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.conformance.acts import pull
from tickwork import InvalidInput, Tickwork
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.errors import StoreBroken
from tickwork.facade.app import engine_of
from tickwork.service.delivery import deliver
from tickwork.testing import Harness, harness
from tickwork.testing.deliveries import PlainBox

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SECRETS = (b"k3y", b"t0ken", b"T00/B00")
SLACK = "https://hooks.slack.com/services/T00/B00"
WEBHOOK: Any = {
    "type": "webhook",
    "url": "https://example.com/hook?token=t0ken",
    "headers": {"Authorization": "Bearer k3y", "Content-Type": "text/plain"},
}
SHOWN: Any = {
    "type": "webhook",
    "url": "https://example.com/hook?***",
    "headers": {"Authorization": "***", "Content-Type": "text/plain"},
}
CHAT: Any = {"type": "slack", "url": SLACK, "text": "hi"}
SHOWN_CHAT: Any = {"type": "slack", "url": "https://hooks.slack.com/***", "text": "hi"}
BOTH: Any = {"type": "channels", "channels": [WEBHOOK, CHAT], "retry_failed_channels": True}


def encrypt(_: PlainBox, secret: str, tenant: str, row: str, field: str) -> bytes:
    """A ciphertext in which the secret cannot be read."""
    return f"{tenant}/{row}/{field}/{secret[::-1]}".encode()


def decrypt(_: PlainBox, stored: bytes, tenant: str, row: str, field: str) -> str:
    place = f"{tenant}/{row}/{field}/"
    assert stored.decode().startswith(place)
    return stored.decode().removeprefix(place)[::-1]


@pytest.fixture
async def h(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Harness]:
    monkeypatch.setattr(PlainBox, "encrypt", encrypt)
    monkeypatch.setattr(PlainBox, "decrypt", decrypt)
    async with harness(app, database=database, start=START) as made:
        yield made


async def stored(h: Harness) -> bytes:
    """Everything that is stored of schedules, messages, dead letters and the audit log."""
    found: list[Any] = [*await h.store.schedules.list(DEFAULT, ScheduleSelection(), 10)]
    found += await pull(h.store, queue="tickwork.deliveries", scope=SYSTEM)
    found += await h.dead("tickwork.deliveries")
    found += await h.store.audit.list(DEFAULT, limit=100)
    return repr(found).encode()


def sent(h: Harness) -> list[tuple[str, str | None]]:
    return [
        (webhook.url, webhook.headers.get("Authorization")) for webhook in h.deliveries.webhooks
    ]


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (WEBHOOK, SHOWN),
        (CHAT, SHOWN_CHAT),
        (BOTH, {**BOTH, "channels": [SHOWN, SHOWN_CHAT]}),
    ],
)
async def test_a_secret_is_sent_but_neither_stored_nor_shown(
    app: Tickwork, h: Harness, target: Any, shown: Any
) -> None:
    made = await app.schedules.create(name="a", daily_time="09:00", target=target)
    assert made.target == (await app.schedules.get("a")).target == shown
    await app.schedules.create_bulk([{"name": "b", "daily_time": "09:00", "target": target}])
    h.deliveries.answer = lambda _: 503
    await h.advance(minutes=45)
    expected = {
        (WEBHOOK["url"], "Bearer k3y") if channel["type"] == "webhook" else (SLACK, None)
        for channel in target.get("channels", [target])
    }
    assert set(sent(h)) == expected
    everything = await stored(h)
    assert b"example.com" in everything or b"slack.com" in everything
    assert not [secret for secret in SECRETS if secret in everything]


async def test_an_update_keeps_the_secrets_that_it_does_not_name(app: Tickwork, h: Harness) -> None:
    await app.schedules.create(name="a", daily_time="09:00", target=WEBHOOK)
    await app.schedules.update("a", payload={"n": 1})
    shown: Any = (await app.schedules.get("a")).target
    shown["timeout_seconds"] = 5
    await app.schedules.update("a", target=shown)
    await app.schedules.trigger("a")
    await h.drain()
    new: Any = {"type": "webhook", "headers": {"Authorization": "Bearer other"}}
    assert (await app.schedules.update("a", target=new)).target["headers"] == {
        "Authorization": "***"
    }
    await app.schedules.trigger("a")
    await h.drain()
    assert sent(h) == [(WEBHOOK["url"], "Bearer k3y"), (WEBHOOK["url"], "Bearer other")]


async def test_of_several_channels_none_gets_the_secret_of_another(
    app: Tickwork, h: Harness
) -> None:
    other: Any = {**WEBHOOK, "url": "https://other.example.com/"}
    made = await app.schedules.create(
        name="a", daily_time="09:00", target={"type": "channels", "channels": [WEBHOOK, other]}
    )
    target: Any = made.target
    swapped: Any = {**target, "channels": target["channels"][::-1]}
    with pytest.raises(InvalidInput) as raised:
        await app.schedules.update("a", target=swapped)
    assert {error.field for error in raised.value.errors} == {
        "target.channels[0].headers.Authorization",
        "target.channels[1].headers.Authorization",
        "target.channels[1].url",
    }
    assert (await app.schedules.update("a", target=target)).target == target
    assert h.deliveries.webhooks == []


@pytest.mark.parametrize("target", [SHOWN, SHOWN_CHAT])
async def test_a_mask_is_refused_where_nothing_is_stored(
    app: Tickwork, h: Harness, target: Any
) -> None:
    with pytest.raises(InvalidInput, match="stands for a secret that is stored"):
        await app.schedules.create(daily_time="09:00", target=target)
    assert h.deliveries.webhooks == []


async def test_the_retry_of_one_channel_and_a_replay_open_the_secrets_again(
    app: Tickwork, h: Harness
) -> None:
    await app.schedules.create(name="a", daily_time="09:00", target=BOTH)
    h.deliveries.answer = lambda request: 200 if "slack" in str(request) else 503
    await h.advance(hours=2)
    assert len(sent(h)) == 6
    (letter,) = await h.dead("tickwork.deliveries")
    assert not [secret for secret in SECRETS if secret in msgspec.json.encode(letter.body)]
    h.deliveries.answer = lambda _: 200
    await app.dead_letters.replay("tickwork.deliveries")
    await h.drain()
    assert sent(h)[-1] == (WEBHOOK["url"], "Bearer k3y")


async def test_a_delivery_whose_key_is_missing_waits(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await app.schedules.create(name="a", daily_time="09:00", target=CHAT, retry={"max_attempts": 1})

    def broken(*_: object) -> str:
        raise StoreBroken("was encrypted with another key")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "tickwork"):
        patched.setattr(PlainBox, "decrypt", broken)
        await h.advance(minutes=33)
        assert (sent(h), deliver.NO_SECRET_SECONDS) == ([], 60.0)
        assert "secrets of a schedule cannot be read" in caplog.text
    await h.advance(minutes=3)
    assert sent(h) == [(SLACK, None)]
    assert (await app.schedules.get("a")).last_status == "succeeded"


async def test_the_key_is_read_once_for_many_schedules(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0

    def box() -> PlainBox:
        nonlocal reads
        reads += 1
        return PlainBox()

    monkeypatch.setattr(engine_of(app), "secret_box", box)
    many: Any = [{"daily_time": "09:00", "target": WEBHOOK, "payload": n} for n in range(20)]
    await app.schedules.create_bulk(many)
    await app.schedules.create_many(many)
    assert (reads, h.deliveries.webhooks) == (2, [])
