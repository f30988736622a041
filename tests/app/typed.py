"""An app as a type checker sees it: `test_typing.py` has it checked, word for word.

Where something must not be allowed the line says which error it wants; a checker that finds none
there complains about that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import msgspec

from tickwork.app.message import Message, MessageBatch
from tickwork.core.answers.batch import BatchAnswer
from tickwork.core.answers.ids import Id
from tickwork.core.answers.schedule import ScheduleAnswer
from tickwork.core.delivery.endpoint import Published
from tickwork.core.message.body import Outgoing
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue
from tickwork.testing import Dead, Sent, harness
from tickwork.workflow.step import Step


class Email(msgspec.Struct):
    """What a message carries."""

    to: str
    copies: int = 1


@dataclass
class Parcel:
    """What another carries."""

    weight: float


app = Tickwork("sqlite:///tickwork.db")
emails = app.queue("emails", payload=Email, max_retries=3)
parcels = app.queue("parcels", payload=Parcel)
anything = app.queue("anything")

assert_type(emails, Queue[Email])
assert_type(parcels, Queue[Parcel])
assert_type(anything, Queue[Any])
assert_type(app.queue("either", payload=Email | Parcel), Queue[Any])
assert_type(app.queue("many", payload=list[Email]), Queue[list[Email]])


@app.on("emails", type="welcome")
async def welcome(message: Message[Email]) -> None:
    """Knows what it is given."""
    assert_type(message.body, Email)
    assert_type(message.attempts, int)
    message.body.copies += 1
    message.body.weight  # type: ignore[attr-defined]  # noqa: B018
    message.retry(delay_seconds="soon")  # type: ignore[arg-type]
    await parcels.send(Parcel(1.5), delay_seconds=60)
    await parcels.send(message.body)  # type: ignore[arg-type]
    await parcels.send({"weight": 1.5})  # type: ignore[arg-type]


@app.consumer("parcels")
async def ship(batch: MessageBatch[Parcel]) -> None:
    """Knows it of every message."""
    assert_type(batch.messages, tuple[Message[Parcel], ...])
    for message in batch:
        assert_type(message.body, Parcel)
    batch.ack_all()


@app.on("anything")
def plainly(message: Message[dict[str, int]]) -> None:
    """A plain function stays one."""
    assert_type(message.body["a"], int)


@app.workflow()
async def double(_: Step, params: int) -> int:
    """Twice the params."""
    return 2 * params


async def send() -> None:
    """Sends what fits, and cannot send what does not."""
    assert_type(await emails.send(Email("a@example.com")), Id)
    assert_type(await emails.send_batch([Email("a"), Email("b")]), tuple[Id, ...])
    await emails.send("a@example.com")  # type: ignore[arg-type]
    await emails.send_batch([Parcel(1.0)])  # type: ignore[list-item]
    await emails.send_batch([Email("a"), Outgoing(Email("b"), delay_seconds=0)], delay_seconds=9)
    await emails.send_batch([Outgoing(Parcel(1.0))])  # type: ignore[arg-type]
    await anything.send_batch([1, Outgoing("text", content_type="text")])
    await anything.send({"whatever": [1, 2]})
    await anything.send("plain", content_type="text")
    await anything.send("plain", content_type="prose")  # type: ignore[arg-type]
    await welcome.send(Email("a"))  # type: ignore[attr-defined]
    plainly("text")  # type: ignore[arg-type]


def send_and_wait() -> None:
    """Without `await` the same is known."""
    assert_type(app.sync.queue("emails", payload=Email).send(Email("a")), Id)
    app.sync.queue("emails", payload=Email).send("a@example.com")  # type: ignore[arg-type]
    assert_type(app.sync.batch(emails, [Email("a")]).progress(), BatchAnswer)
    app.sync.batch(emails, [Parcel(1.0)])  # type: ignore[list-item]
    assert_type(app.sync.schedules.get("report"), ScheduleAnswer)
    app.sync.schedules.pause("report", now=True)  # type: ignore[call-arg]
    assert_type(app.sync.owner("ann").schedules.list(), tuple[ScheduleAnswer, ...])
    assert_type(app.sync.workflows.start(double, 2).result(timeout_seconds=5), int)
    app.sync.workflows.start(double, "two")  # type: ignore[arg-type]
    assert_type(app.sync.events.publish("order.paid", {}), Published)


async def check() -> None:
    """The harness is typed as well."""
    async with harness(app, raise_errors=True) as h:
        await h.advance(days=6)
        assert_type(await h.sent("parcels"), list[Sent])
        assert_type(await h.dead("emails"), list[Dead])
        await h.advance(days="six")  # type: ignore[arg-type]
