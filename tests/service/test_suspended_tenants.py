"""A suspended tenant: nothing of it runs until it is resumed."""

from __future__ import annotations

from tickwork import Message, Tickwork
from tickwork.testing import harness


async def test_a_suspended_tenant_runs_nothing_until_it_is_resumed(database: str | None) -> None:
    app = Tickwork(database, name="suspended")
    work = app.queue("work")
    handled: list[object] = []

    @app.on("work")
    async def handle(message: Message) -> None:
        handled.append(message.body)

    async with harness(app, database=database) as h:
        await app.schedules.create(
            interval_minutes=60,
            target={"type": "queue", "queue": "work"},
            payload="tick",
            missed={"policy": "skip"},
        )
        await app.tenants.suspend("default")
        await work.send("sent")
        await h.advance(hours=3)
        await h.drain()
        assert handled == []
        await app.tenants.resume("default")
        await h.drain()
        assert handled.count("sent") == 1
        late = handled.count("tick")
        await h.advance(hours=2)
        assert handled.count("tick") == late + 2
        assert late <= 1  # `missed` skips slots that are late.
