"""An id is text: it goes wherever a text goes, on both databases."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tickwork import Entity, Message, Outgoing, Step, Tickwork
from tickwork.core.answers.ids import Id
from tickwork.service.http_answer import answer_of
from tickwork.service.isolation.protocol import encode_frame
from tickwork.testing import harness


class Note(Struct):
    id: str
    others: dict[str, str]


class Notebook(Entity):
    async def add(self, id_: str) -> list[str]:
        await self.storage.put(id_, {id_: id_})
        await self.schedule(id_, method="add", cron="0 9 * * *", payload=id_)
        return [*await self.storage.list()]


async def test_an_id_goes_wherever_a_text_goes(app: Tickwork, database: str | None) -> None:
    notes = app.queue("notes", payload=Note)
    seen: list[Message[Note]] = []

    @app.on(notes)
    async def handle(message: Message[Note]) -> None:
        seen.append(message)
        message.send("plain", {message.id: [message.id]}, key=message.id, source=message.id)
        await app.events.publish("note.read", {"id": message.id}, event_id=message.id)

    app.queue("plain")

    @app.on("plain")
    def pass_on(message: Message[Any]) -> None:
        message.send("last", message.id, correlation_id=message.id, event_id=message.id)

    app.queue("last")
    app.entities.register(Notebook)

    @app.workflow()
    async def look(step: Step, id_: str) -> dict[str, str]:
        return {id_: await step.do("same", lambda: id_)}

    async with harness(app, database=database) as h:
        sent = await notes.send(Note("", {}))
        assert type(sent) is Id
        await notes.send(Note(sent, {sent: sent}), correlation_id=sent, type=sent)
        await app.queue("last").send_batch([Outgoing(sent, event_id=sent, key=sent)])
        await app.queue("last").send(0, correlation_id=sent)
        batch = await app.batch("last", [{"id": sent}], key=sent)
        run = await app.workflows.start(look, sent, id=sent)
        made = await app.schedules.create(
            name=f"of {sent}", owner=sent, cron_expr="0 9 * * *", target={"queue": "last"},
            payload={"id": batch.id}, metadata={"id": sent},
        )  # fmt: skip
        assert await app.entity(Notebook, sent).add(sent) == [sent]
        await h.drain()
        assert seen[0].id == sent
        assert await run.result() == {sent: sent}
        assert [found.id for found in await app.schedules.list(metadata={"id": sent})] == [made.id]
        assert await app.messages.list("last", correlation_id=sent)
    assert sent.encode() in encode_frame([sent], 1)
    assert answer_of({"id": sent}).body == f'{{"id":"{sent}"}}'.encode()
