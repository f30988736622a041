"""What type checkers see of the clients; mypy checks this file with the others."""

from __future__ import annotations

from typing import Any, assert_type

from tickwork import Client, SyncClient
from tickwork.client.batches import Batch
from tickwork.client.call import Async, AsyncListing, Sync, SyncListing
from tickwork.client.runs import Run
from tickwork.core.answers.ids import Id
from tickwork.core.answers.queue import QueueAnswer
from tickwork.core.answers.schedule import ScheduleAnswer

TARGET: Any = {"type": "queue", "queue": "emails"}


async def with_asyncio(client: Client) -> None:
    assert_type(await client.queues.get("emails"), QueueAnswer)
    assert_type(await client.queue("emails").send(1, delay_seconds=3), Id)
    assert_type(await client.schedules.create(cron_expr="@daily", target=TARGET), ScheduleAnswer)
    assert_type(client.schedules.list(status="active"), AsyncListing[ScheduleAnswer])
    assert_type(await client.schedules.list(), tuple[ScheduleAnswer, ...])
    assert_type(await client.workflows.start("content", id="brand-7"), Run[Async])
    assert_type(await client.batch("emails", [1, 2], priority=9), Batch[Async])
    await client.queues.get(nme="emails")  # type: ignore[call-arg]
    await client.queue("emails").send(1, delay="3")  # type: ignore[call-arg]
    await client.schedules.create(cron="@daily")  # type: ignore[call-arg]


def without_asyncio(client: SyncClient) -> None:
    assert_type(client.queues.get("emails"), QueueAnswer)
    assert_type(client.queue("emails").send(1, delay_seconds=3), Id)
    assert_type(client.schedules.create(cron_expr="@daily", target=TARGET), ScheduleAnswer)
    assert_type(client.schedules.list(status="active"), SyncListing[ScheduleAnswer])
    assert_type(client.workflows.start("content", id="brand-7"), Run[Sync])
    assert_type(client.batch("emails", [1, 2], priority=9), Batch[Sync])
    client.queues.get(nme="emails")  # type: ignore[call-arg]
    client.schedules.create(cron="@daily")  # type: ignore[call-arg]
