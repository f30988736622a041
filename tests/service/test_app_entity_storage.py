"""The storage of an entity: reads its own writes, lists in byte order, and keeps its limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any, ClassVar

import pytest

from tickwork import Entity, InvalidInput, exposed, read
from tickwork.core.entity import call as limits
from tickwork.core.entity.call import prefix_end, queue_of
from tickwork.core.entity.missing_method import missing_method
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.entity.entity import AlarmInfo
from tickwork.errors import Conflict, OlderCode
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.entities import new_call, request_call, send_call
from tickwork.ops.why import why_entity
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness

Script = Callable[[Entity], Awaitable[Any]]


class Box(Entity):
    """Runs a function of the test as its method."""

    _script: ClassVar[Script]
    migrations: ClassVar[list[int]] = []

    async def run(self) -> Any:
        return await type(self)._script(self)

    @read
    async def look(self) -> Any:
        return await type(self)._script(self)

    async def migrate(self, from_version: int) -> None:
        self.migrations.append(from_version)
        if from_version == 8:
            raise ValueError("cannot migrate")
        await self.storage.put("version", from_version)


class Deployed(Entity):
    """Notes its calls."""

    @exposed
    async def note(self, text: str = "-") -> str:
        await self.storage.put("notes", [*await self.storage.get("notes", []), text])
        return text

    async def wake_in(self, seconds: float) -> None:
        await self.set_alarm(self.now + timedelta(seconds=seconds))

    async def alarm(self, info: AlarmInfo) -> None:
        await self.note(f"alarm, retries: {info.retries}")

    async def note_in(self, seconds: float) -> None:
        await self.schedule("s", at=self.now + timedelta(seconds=seconds), method="note")

    @read
    async def notes(self) -> Any:
        return await self.storage.get("notes", [])


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.entities.register(Box)
    app.entities.register(Deployed)
    Box.schema_version = 1
    Box.migrations.clear()
    async with harness(app, database=database) as made:
        yield made


async def run(app: Tickwork, script: Script, key: str = "a") -> Any:
    Box._script = staticmethod(script)
    return await app.entity(Box, key).run()


async def look(app: Tickwork, script: Script, key: str = "a") -> Any:
    Box._script = staticmethod(script)
    return await app.entity(Box, key).look()


async def all_values(box: Entity) -> Any:
    return await box.storage.list()


KEYS = ["", "a", "ab", "b", "é", "z", "\U0001f600", "￿", "a￿", "a\U0010ffff", "A", "~"][1:]


@pytest.mark.usefixtures("h")
async def test_the_storage_is_a_sorted_map_that_reads_its_own_writes(app: Tickwork) -> None:
    """Against a dict, with a commit after every call, over random calls."""
    draw, model = Random(7), dict[str, int]()

    def expected(**selected: Any) -> dict[str, int]:
        prefix, reverse = selected.get("prefix", ""), selected.get("reverse", False)
        start, after = selected.get("start"), selected.get("start_after")
        end, limit = selected.get("end"), selected.get("limit")
        found = [
            name
            for name in sorted(model, key=str.encode, reverse=reverse)
            if name.startswith(prefix)
            and (start is None or name.encode() >= start.encode())
            and (after is None or name.encode() > after.encode())
            and (end is None or name.encode() < end.encode())
        ]
        return {name: model[name] for name in found[:limit]}

    async def steps(box: Entity) -> None:
        for _ in range(12):
            name = draw.choice(KEYS)
            match draw.randrange(7):
                case 0 | 1:
                    model[name] = draw.randrange(100)
                    await box.storage.put(name, model[name])
                case 2:
                    assert await box.storage.delete(name) == (model.pop(name, None) is not None)
                case 3 if draw.random() < 0.2:
                    model.clear()
                    await box.storage.delete_all()
                case 4:
                    assert await box.storage.get(name, -1) == model.get(name, -1)
                case _:
                    start = draw.choice(["start", "start_after"])
                    options: dict[str, Any] = {
                        "prefix": draw.choice(["", "", *KEYS]),
                        start: draw.choice([None, None, *KEYS]),
                        "end": draw.choice([None, None, *KEYS]),
                        "reverse": draw.random() < 0.5,
                        "limit": draw.choice([1, 2, None]),
                    }
                    found = await box.storage.list(**options)
                    wanted = expected(**options)
                    assert (found, [*found]) == (wanted, [*wanted])

    for _ in range(25):
        await run(app, steps)
        assert await look(app, all_values) == model


async def test_several_keys_are_read_and_written_at_once(app: Tickwork, h: Harness) -> None:
    async def write(box: Entity) -> Any:
        await box.storage.put({"a": 1, "b": [2], "c": None})
        return await box.storage.get(["a", "b", "x"]), await box.storage.delete(["b", "x"])

    assert await run(app, write) == [{"a": 1, "b": [2]}, 1]
    assert await look(app, all_values) == {"a": 1, "c": None}
    (record,) = await h.store.entities.list(DEFAULT, "Box", 10)
    assert (record.key, record.storage_bytes, record.schema_version) == ("a", 1 + 1 + 1 + 4, 1)

    async def clear(box: Entity) -> None:
        await box.storage.delete_all()

    await run(app, clear)
    assert await h.store.entities.list(DEFAULT, "Box", 10) == ()


async def test_entities_of_a_type_are_listed_by_prefix(app: Tickwork, h: Harness) -> None:
    async def write(box: Entity) -> None:
        await box.storage.put("n", 1)

    for key in ("b/2", "a/1", "b/1", "c"):
        await run(app, write, key)
    listed = h.store.entities.list
    found = [entity.key for entity in await listed(DEFAULT, "Box", 10)]
    assert found == ["a/1", "b/1", "b/2", "c"]
    assert [entity.key for entity in await listed(DEFAULT, "Box", 10, prefix="b/")] == [
        "b/1",
        "b/2",
    ]
    assert [entity.key for entity in await listed(DEFAULT, "Box", 1, after="b/1")] == ["b/2"]
    assert await listed(DEFAULT, "Other", 10) == ()


WRITES: dict[str, tuple[Script, str]] = {
    "key too long": (lambda box: box.storage.put("ä" * 1025, 1), "storage key"),
    "no key": (lambda box: box.storage.put("", 1), "storage key"),
    "no text": (lambda box: box.storage.get(7), "storage key"),  # type: ignore[call-overload]
    "no JSON": (lambda box: box.storage.put("a", object()), "storage['a']"),
    "too large": (lambda box: box.storage.put("a", "x" * 131_071), "storage['a']"),
    "too many keys": (lambda box: box.storage.put({str(n): 1 for n in range(129)}), "storage"),
    "bad limit": (lambda box: box.storage.list(limit=-1), "limit"),
}


@pytest.mark.usefixtures("h")
@pytest.mark.parametrize("name", WRITES)
async def test_what_breaks_a_limit_is_refused_by_name_and_nothing_is_stored(
    app: Tickwork, name: str
) -> None:
    refused, field = WRITES[name]

    async def write(box: Entity) -> None:
        await box.storage.put("before", 1)
        await refused(box)

    with pytest.raises(InvalidInput) as caught:
        await run(app, write)
    assert [error.field for error in caught.value.errors] == [field]
    assert await look(app, all_values) == {}


@pytest.mark.usefixtures("h")
async def test_the_largest_key_and_value_are_stored(app: Tickwork) -> None:
    async def write(box: Entity) -> None:
        await box.storage.put("ä" * 1024, "x" * 131_070)

    await run(app, write, "k" * 512)
    (value,) = (await look(app, all_values, "k" * 512)).values()
    assert len(value) == 131_070


@pytest.mark.usefixtures("h")
async def test_a_storage_has_a_largest_size(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.entity.storage.STORAGE_BYTES_MAX", 100)

    async def put(box: Entity, **sizes: int) -> None:
        await box.storage.put({name: "x" * (size - 3) for name, size in sizes.items()})

    await run(app, lambda box: put(box, a=50, b=40))
    await run(app, lambda box: put(box, a=60))  # It replaces the one before.
    with pytest.raises(InvalidInput, match="more than 100 bytes"):
        await run(app, lambda box: put(box, c=10))

    async def replace(box: Entity) -> None:
        await box.storage.delete("a")
        await put(box, c=60)

    await run(app, replace)
    assert [*await look(app, all_values)] == ["b", "c"]


@pytest.mark.usefixtures("h")
async def test_a_call_changes_a_limited_number_of_keys(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.core.entity.overlay.CHANGES_MAX", 2)
    with pytest.raises(InvalidInput, match="at most 2 keys"):
        await run(app, lambda box: box.storage.put({"a": 1, "b": 1, "c": 1}))


@pytest.mark.usefixtures("h")
async def test_a_result_is_json_of_a_limited_size(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def returns(value: Any) -> Any:
        return value

    with pytest.raises(InvalidInput, match="the result of run: cannot be encoded as JSON"):
        await run(app, lambda _: returns(object()))
    monkeypatch.setattr(limits, "RESULT_BYTES_MAX", 10)
    with pytest.raises(InvalidInput, match="has 11 bytes; at most 10"):
        await run(app, lambda _: returns("x" * 9))


@pytest.mark.usefixtures("h")
async def test_a_call_that_has_ended_cannot_use_its_storage(app: Tickwork) -> None:
    kept: list[Entity] = []

    async def keep(box: Entity) -> None:
        kept.append(box)

    await run(app, keep)
    for late in (kept[0].storage.get("a"), kept[0].storage.put("a", 1), kept[0].storage.list()):
        with pytest.raises(InvalidInput, match="a call that has ended"):
            await late
    for late in (kept[0].set_alarm(kept[0].now), kept[0].delete_alarm(), kept[0].unschedule("x")):
        with pytest.raises(InvalidInput, match="a call that has ended"):
            await late


# Reads


@pytest.mark.usefixtures("h")
async def test_a_read_sees_one_state_even_if_calls_change_it_meanwhile(app: Tickwork) -> None:
    """A call that commits between two reads makes the method start again."""
    # A small storage is read as a whole.
    await run(app, lambda box: box.storage.put({"a": 0, "b": 0, "large": "x" * 20_000}))
    attempts = list[int]()

    async def both(box: Entity) -> Any:
        first = await box.storage.get("a")
        attempts.append(first)
        if len(attempts) < 3:
            reader = Box._script
            number = len(attempts)
            await run(app, lambda box: box.storage.put({"a": number, "b": number}))
            Box._script = staticmethod(reader)
        return [first, await box.storage.get("b")]

    assert await look(app, both) == [2, 2]
    assert attempts == [0, 1, 2]


@pytest.mark.usefixtures("h")
async def test_a_read_waits_for_no_call(app: Tickwork) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def write(box: Entity) -> None:
        await box.storage.put("n", 1)
        entered.set()
        await leave.wait()

    writing = asyncio.create_task(run(app, write))
    await entered.wait()
    assert await look(app, all_values) == {}
    leave.set()
    await writing
    assert await look(app, all_values) == {"n": 1}


# Migrations


@pytest.mark.usefixtures("h")
async def test_a_newer_class_migrates_what_is_stored_once(app: Tickwork) -> None:
    await run(app, lambda box: box.storage.put("n", 1))
    Box.schema_version = 3
    assert await look(app, all_values) == {"n": 1, "version": 1}  # A read migrates, too.
    assert await run(app, all_values) == {"n": 1, "version": 1}
    assert await run(app, all_values, "new") == {}
    assert Box.migrations == [1]
    Box.schema_version = 2
    with pytest.raises(OlderCode, match="has schema_version 3, this process knows 2"):
        await run(app, all_values)


@pytest.mark.usefixtures("h")
async def test_a_migration_that_fails_changes_nothing(app: Tickwork) -> None:
    Box.schema_version = 8
    await run(app, lambda box: box.storage.put("n", 1))
    Box.schema_version = 9
    with pytest.raises(ValueError, match="cannot migrate"):
        await run(app, all_values)
    Box.schema_version = 8
    assert await run(app, all_values) == {"n": 1}


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("", None), ("a", "b"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ue000")],
)
def test_the_end_of_a_prefix_is_the_first_text_after_it(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end


@pytest.mark.parametrize("is_deployed", [True, False])
async def test_a_send_of_a_method_that_a_node_does_not_have_waits_for_one_that_has_it(
    app: Tickwork, h: Harness, is_deployed: bool
) -> None:
    newer = new_id()  # A worker that has not said whether it has the method.
    join = h.store.nodes.join
    await join(SYSTEM, newer, name="newer", roles=["worker"], ttl_seconds=3_600)
    await app.entity(Deployed, "a").send.note("new")
    methods = app._engine.entities.types["Deployed"].methods
    note = methods.pop("note")  # A node with older code takes it.
    await h.advance(minutes=5)
    (wait,) = await why_entity(Context(h.store, DEFAULT), "Deployed", "a")
    assert (
        "no handler for the method Deployed.note (do you mean notes?) on node " in wait.details[0]
    )
    if is_deployed:
        methods["note"] = note
        await h.advance(seconds=30)
        assert await app.entity(Deployed, "a").notes() == ["new"]
        return
    await h.advance(minutes=10)
    (dead,) = await h.dead(queue_of("Deployed"))
    assert dead.reason == "unhandled_type"
    assert (dead.error or "").startswith("no handler for the method Deployed.note")


async def test_a_send_of_a_method_that_no_live_worker_has_is_dead_at_once(
    app: Tickwork, h: Harness
) -> None:
    await send_call(Context(h.store, DEFAULT), new_call("Deployed", "a", "nots", [], {}))
    await h.drain()
    (dead,) = await h.dead(queue_of("Deployed"))
    error = "no handler for the method Deployed.nots (do you mean notes?) on any live worker"
    assert (dead.reason, dead.error) == ("unhandled_type", error)
    (letter,) = await app.dead_letters.list()  # Nobody has to know its queue.
    assert letter.error == error
    assert await app.entity(Deployed, "a").notes() == []  # It keeps nobody waiting.


def test_a_method_is_missing_everywhere_when_every_live_worker_has_said_so() -> None:
    one, two, three = new_id(), new_id(), new_id()
    error = None
    for node, is_nowhere in ((one, False), (one, False), (two, False), (three, True)):
        found = missing_method("A.b", None, last_error=error, node=node, workers=[one, two, three])
        assert found.is_nowhere is is_nowhere
        error = f"no handler for {found.what} (release 1 of 20)"
    found = missing_method("A.b", None, last_error="another", node=one, workers=[one, two])
    assert not found.is_nowhere
    assert missing_method("A.b", None, last_error=None, node=one, workers=[]).is_nowhere


@pytest.mark.usefixtures("h")
async def test_a_list_has_all_keys_unless_it_is_given_a_limit(app: Tickwork) -> None:
    wanted = [f"key-{number:05}" for number in range(2_500)]

    async def fill(box: Entity) -> None:
        for start in range(0, len(wanted), 100):
            await box.storage.put(dict.fromkeys(wanted[start : start + 100], 1))

    async def all_keys(box: Entity) -> list[list[str]]:
        await box.storage.delete(wanted[0])
        listed = await box.storage.list()
        last = await box.storage.list(reverse=True)
        return [[*listed], [*last], [*await box.storage.list(limit=1_500)]]

    await run(app, fill)
    assert await run(app, all_keys) == [wanted[1:], wanted[:0:-1], wanted[1:1_501]]


@pytest.mark.one_store("sqlite")
@pytest.mark.usefixtures("h")
@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (lambda box: box.storage.put("a"), r"put: has no value for 'a'; put\(key, None\) stores"),
        (lambda box: box.storage.put({"a": 1}, 2), "put: takes a key and a value, or only a map"),
        (lambda box: box.storage.list(start="a", start_after="b"), "start: cannot be given toge"),
        (lambda box: box.storage.list(limit=0), "limit: must be a whole number from 1 on, not 0"),
        (lambda box: box.set_alarm(box.now), "alarm: cannot be set: Box has no `async def alarm"),
    ],
)
async def test_what_cannot_be_meant_is_refused_at_once(
    app: Tickwork, work: Callable[[Any], Awaitable[Any]], fault: str
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        await run(app, work)


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (NAN, ""),
        ({"price": NAN, "name": None}, ".price"),
        ([None, {"a b": (1.5, -INFINITY)}], "[1]['a b'][1]"),
    ],
)
async def test_nan_and_infinity_are_refused_with_their_path(
    app: Tickwork, h: Harness, value: Any, path: str
) -> None:
    async def put(box: Entity) -> None:
        await box.storage.put("x", value)

    async def returned(_box: Entity) -> Any:
        return value

    def fault(field: str, root: str) -> str:
        return rf"^{re.escape(field)}: has (nan|-?inf) at {re.escape(root + path)}, which JSON"

    with pytest.raises(InvalidInput, match=fault("storage['x']", "storage['x']")):
        await run(app, put)
    with pytest.raises(InvalidInput, match=fault("the result of run", "result")):
        await run(app, returned)
    for called in (app.entity(Deployed, "a").note, app.entity(Deployed, "a").send.note):
        with pytest.raises(InvalidInput, match=fault("args", "args[0]")):
            await called(value)
    with pytest.raises(InvalidInput, match=fault("args", "kwargs.text")):
        await app.entity(Deployed, "a").note(text=value)
    with pytest.raises(InvalidInput, match=fault("storage['x']", "storage['x']")):
        await app.entities.put_value("Box", "a", "x", value)
    with pytest.raises(InvalidInput, match=fault("args", "args[0]")):
        await app.entities.call("Deployed", "a", "note", [value])
    assert await run(app, all_values) == {}
    assert await h.store.entities.list(DEFAULT, "Deployed", 10) == ()


@pytest.mark.one_store("sqlite")
@pytest.mark.usefixtures("h")
@pytest.mark.parametrize("args", [3, "text", None, b"x", {1}])
async def test_arguments_of_a_call_by_name_are_a_list_or_an_object(
    app: Tickwork, args: Any
) -> None:
    with pytest.raises(InvalidInput, match=r"^args: must be a list, or an object by name"):
        await app.entities.call("Deployed", "a", "note", args)


async def test_another_request_with_the_same_key_replaces_no_result(h: Harness) -> None:
    first, other = (new_call("Deployed", "a", "note", [text], {}, "key") for text in ("1", "2"))
    for call in (first, other):
        assert await request_call(Context(h.store, DEFAULT), call, wait_seconds=0.0) is None
    await h.drain()
    assert await request_call(Context(h.store, DEFAULT), first) == b'"1"'
    with pytest.raises(Conflict, match="was used for another call"):
        await request_call(Context(h.store, DEFAULT), other)


@pytest.mark.parametrize("kind", ["alarm", "slot", "send", "request"])
async def test_a_node_with_older_code_puts_calls_back_for_a_newer_one(
    app: Tickwork, h: Harness, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    Deployed.schema_version = 2
    deployed, asked = app.entity(Deployed, "a"), new_call("Deployed", "a", "note", [], {}, "once")
    await deployed.note("first")
    match kind:
        case "alarm":
            await deployed.wake_in(10)
        case "slot":
            await deployed.note_in(10)
            await h.drain()
        case "send":
            await deployed.send.note(kind)
        case "request":
            assert await request_call(Context(h.store, DEFAULT), asked, wait_seconds=0.0) is None
    Deployed.schema_version = 1
    await h.advance(minutes=3)  # Longer than its retries last.
    assert caplog.text.count("has schema_version 2, this process knows 1") == 1
    waits = await why_entity(Context(h.store, DEFAULT), "Deployed", "a")
    if kind != "slot":  # It is no call of the entity yet.
        assert [wait.code for wait in waits] == ["delayed"]
        assert "this process knows 1" in waits[0].details[0]
    Deployed.schema_version = 2
    await h.advance(seconds=10)
    noted = {"alarm": "alarm, retries: 0", "request": "-", "slot": "-"}.get(kind, kind)
    assert await deployed.notes() == ["first", noted]
    if kind == "request":
        assert await request_call(Context(h.store, DEFAULT), asked) == b'"-"'
