"""Entities answer as Durable Objects do, or an ADR says why not."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest

from tests.kit.waiting import delay
from tests.service.durable_objects.peer import ANSWERS, ROOT, SCENARIOS, answers_of_peer
from tickwork import Entity, InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

SECOND, SLOWLY_SECONDS = timedelta(seconds=1), 0.02
ROUNDS_MAX = 4
ADR = ROOT / "docs" / "adr" / "0034-beside-durable-objects.md"
ALL: list[dict[str, Any]] = json.loads(SCENARIOS.read_text(encoding="utf-8"))
THEIRS: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))

Acts = Sequence[Sequence[Any]]


class FailsAsAsked(Exception):
    """What a scenario asks for."""


class Notes:
    """What a scenario knows of its entity outside the storage, where nothing is undone."""

    def __init__(self, start: datetime, on_alarm: Sequence[Acts]) -> None:
        self.start, self.on_alarm = start, on_alarm
        self.last, self.alarms = start, list[dict[str, Any]]()


class Peer(Entity):
    """Does what a scenario says."""

    notes: ClassVar[dict[str, Notes]] = {}

    async def run(self, acts: Acts) -> list[Any]:
        return await self._perform(acts, [])

    async def alarm(self, info: Any) -> None:
        notes, answers = self.notes[self.key], list[Any]()
        number = min(len(notes.alarms), len(notes.on_alarm) - 1)
        seen = {"retries": info.retries, "answers": answers}
        if info.retries:
            seen["after"] = (self.now - notes.last) / SECOND
        else:
            seen["at"] = (self.now - notes.start) / SECOND
        notes.last = self.now
        notes.alarms.append(seen)
        await self._perform(notes.on_alarm[number], answers)

    async def _perform(self, acts: Acts, answers: list[Any]) -> list[Any]:
        for name, *given in acts:
            act: Callable[..., Awaitable[Any]] = getattr(self, f"_{name}")
            answers.append(await act(*given))
        return answers

    async def _put(self, *given: Any) -> None:
        await self.storage.put(*given)

    async def _get(self, key: Any) -> Any:
        return await self.storage.get(key)

    async def _delete(self, key: Any) -> int:
        return await self.storage.delete(key)

    async def _list(self, options: Any = None) -> list[list[Any]]:
        return [[*pair] for pair in (await self.storage.list(**(options or {}))).items()]

    async def _delete_all(self) -> None:
        await self.storage.delete_all()

    async def _put_many(self, count: int) -> None:
        await self.storage.put({f"key-{number}": number for number in range(count)})

    async def _get_many(self, count: int) -> int:
        return len(await self.storage.get([f"key-{number}" for number in range(count)]))

    async def _set_alarm(self, seconds: float) -> None:
        await self.set_alarm(self.notes[self.key].start + seconds * SECOND)

    async def _get_alarm(self) -> float | None:
        at = await self.get_alarm()
        return None if at is None else (at - self.notes[self.key].start) / SECOND

    async def _delete_alarm(self) -> None:
        await self.delete_alarm()

    async def _append(self, key: str, value: Any) -> None:
        await self.storage.put(key, [*await self.storage.get(key, []), value])

    async def _add_slowly(self, key: str) -> None:
        value = await self.storage.get(key, 0)
        await delay(SLOWLY_SECONDS)
        await self.storage.put(key, value + 1)

    async def _fail(self) -> None:
        raise FailsAsAsked


async def answer_of(app: Tickwork, key: str, acts: Acts) -> Any:
    try:
        return await app.entity(Peer, key).run(acts)
    except FailsAsAsked:
        return {"error": "failed"}
    except InvalidInput:
        return {"error": "refused"}


async def run(app: Tickwork, h: Harness, scenario: dict[str, Any]) -> dict[str, Any]:
    """What our entity answers."""
    key, start = scenario["name"], h.now
    notes = Peer.notes[key] = Notes(start, scenario.get("on_alarm", [[]]))
    answers = []
    for act in scenario["acts"]:
        if "until" in act:
            await h.advance(seconds=(start + act["until"] * SECOND - h.now) / SECOND)
        else:
            calls = act.get("together") or [act["call"]]
            answers.append(await asyncio.gather(*(answer_of(app, key, call) for call in calls)))
    return {"answers": answers, "alarms": notes.alarms}


@pytest.mark.one_store("sqlite")
async def test_an_entity_answers_as_a_durable_object_does_or_an_adr_says_why_not(
    app: Tickwork, database: str | None
) -> None:
    app.entities.register(Peer)
    async with harness(app, database=database) as h:
        ours = {scenario["name"]: await run(app, h, scenario) for scenario in ALL}
    assert ours == THEIRS["answers"] | {
        scenario["name"]: scenario["ours"] for scenario in ALL if "differs" in scenario
    }
    reasons = {
        scenario["name"]: f"**{scenario['differs']}**" for scenario in ALL if "differs" in scenario
    }
    assert [name for name in reasons if ours[name] == THEIRS["answers"][name]] == []
    decision = ADR.read_text(encoding="utf-8")
    assert [name for name, reason in reasons.items() if reason not in decision] == []


@pytest.mark.soak
def test_the_answers_are_those_of_the_workers_runtime() -> None:
    left, found = ALL, dict[str, Any]()
    for _ in range(
        ROUNDS_MAX
    ):  # On a busy machine calls and alarms are late: they are tried again.
        told = answers_of_peer(left)
        assert told["runtime"] == THEIRS["runtime"]
        found |= told["answers"]
        left = [
            scenario
            for scenario in ALL
            if found[scenario["name"]] != THEIRS["answers"][scenario["name"]]
        ]
        if not left:
            break
    assert found == THEIRS["answers"]
