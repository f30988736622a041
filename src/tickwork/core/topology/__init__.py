"""Topology: which queues there are, who sends to them and who is served by them, as one file.

```
  [limits]         what counts for every queue that says nothing else
  [[queues]]       name, its settings, shared, paused
  [[producers]]    name, queue
  [[consumers]]    queue, name, max_concurrency, and settings of the queue from the consumer's side
  [[subscriptions]] types, queue, shared
```

Contract: `parse` either answers with a topology in which every name leads somewhere, or raises
`InvalidInput` with every fault, each named by its place (`queues[2].max_retries`) and said so
that one knows what to write instead. A dead-letter queue need not have an entry of its own: to
name it is to want it. Other sections of the file are not looked at here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tickwork.core.limits import check_queue
from tickwork.core.message.subscription import pattern_faults
from tickwork.core.model import QueueSettings
from tickwork.core.topology import fields as reading
from tickwork.core.topology.fields import Entry, Reading
from tickwork.errors import FieldError, InvalidInput

FILE = "tickwork.toml"
ENTRIES_MAX = 10_000
CONCURRENCY_MAX = 10_000

SECTIONS = ("queues", "producers", "consumers", "subscriptions", "limits")
"""What of the file is the topology."""

OTHER_SECTIONS = ("server",)

_QUEUE_KEYS = {"name": reading.text, "shared": reading.flag, "paused": reading.flag}
_LIMITS = frozenset(
    {
        "backlog_bytes_max",
        "max_retries",
        "rate_per_second",
        "retention_seconds",
        "tenant_claimed_max",
        "timeout_seconds",
    }
)


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A queue that should be there; `paused` None leaves it as it is. One that is `implied`, as
    the dead-letter queue of another, is made if it is not there, and else left as it is."""

    name: str
    settings: QueueSettings = QueueSettings()
    shared: bool = False
    paused: bool | None = None
    implied: bool = False


class Producer(Struct, frozen=True, kw_only=True):
    """Who sends to a queue."""

    name: str
    queue: str


class Consumer(Struct, frozen=True, kw_only=True):
    """Who is served by a queue, and how many batches at a time; None: as many as is good. Of an
    app, those who handle one type say which; a file speaks of whole queues."""

    queue: str
    name: str | None = None
    max_concurrency: int | None = None
    type: str | None = None


class SubscriptionEntry(Struct, frozen=True, kw_only=True):
    """A subscription that should be there; a shared one is for the messages of every tenant."""

    types: str
    queue: str
    shared: bool = False


class Topology(Struct, frozen=True, kw_only=True):
    """Everything the file says."""

    queues: tuple[QueueEntry, ...] = ()
    producers: tuple[Producer, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    subscriptions: tuple[SubscriptionEntry, ...] = ()


def parse(text: str, *, file: str = FILE) -> Topology:
    """The topology that a file's text says; `file` names it where no place in it can."""
    tables = _tables(text, file)
    faults: list[FieldError] = [*_section_faults(tables, file)]
    found = Reading(tables, faults, entries_max=ENTRIES_MAX)
    parsed = _Parsing(found)
    topology = Topology(
        queues=tuple(parsed.queues()),
        producers=tuple(parsed.producers()),
        consumers=tuple(parsed.consumers()),
        subscriptions=tuple(parsed.subscriptions()),
    )
    if faults:
        raise InvalidInput(dict.fromkeys(faults))
    return topology


class _Parsing:
    """The entries of one file, and where each queue stands in it."""

    def __init__(self, found: Reading) -> None:
        self._found = found
        self._limits = found.table("limits", {name: reading.SETTINGS[name] for name in _LIMITS})
        self._queues = found.entries("queues", {**_QUEUE_KEYS, **reading.SETTINGS})
        self._consumers = found.entries(
            "consumers",
            {
                "queue": reading.text,
                "name": reading.text,
                "max_concurrency": reading.whole_number,
                **reading.SETTINGS,
            },
        )
        self._named: dict[str, Entry] = {}
        for entry in self._queues:
            self._name(entry)
        self._implied: dict[str, bool] = {}
        for entry, owner in [
            *((each, each.values.get("name")) for each in self._queues),
            *((each, each.values.get("queue")) for each in self._consumers),
        ]:
            self._imply(owner, entry.values.get("dead_letter_queue"))

    def _name(self, entry: Entry) -> None:
        name = entry.required("name", 'a name, such as name = "emails"')
        if name is None:
            return
        first = self._named.setdefault(name, entry)
        if first is not entry:
            entry.fault("name", f"{reading.shown(name)} is {first.place} already; take one out")

    def _imply(self, owner: str | None, dead: str | None) -> None:
        """Where the dead letters of a queue go is a queue, shared if one of theirs is."""
        if owner in self._named and dead is not None and dead not in self._named:
            self._implied[dead] = self._implied.get(dead, False) or self._is_shared(owner)

    def queues(self) -> Iterator[QueueEntry]:
        served = self._served()
        self._check("limits", self._limits.settings())
        for name, entry in self._named.items():
            settings = {**self._limits.settings(), **entry.settings()}
            consumer = served.get(name)
            if consumer is not None:
                settings.update(self._agreed(entry, consumer))
            made = self._check(name, settings)
            yield QueueEntry(
                name=name,
                settings=made,
                shared=entry.values.get("shared", False),
                paused=entry.values.get("paused"),
            )
            self._check_dead_letters(entry, settings)
        self._check_rounds(served)
        usual = {field: each.value for field, each in self._limits.settings().items()}
        for name, shared in self._implied.items():
            made = QueueSettings(**usual)
            yield QueueEntry(name=name, settings=made, shared=shared, implied=True)

    def producers(self) -> Iterator[Producer]:
        seen: dict[tuple[Any, Any], Entry] = {}
        for entry in self._found.entries(
            "producers", {"name": reading.text, "queue": reading.text}
        ):
            name = entry.required("name", 'who sends, such as name = "shop"')
            queue = self._queue_of(entry)
            if name is None or queue is None:
                continue
            first = seen.setdefault((name, queue), entry)
            if first is not entry:
                entry.fault("queue", f"is the same as {first.place}; take one out")
            yield Producer(name=name, queue=queue)

    def consumers(self) -> Iterator[Consumer]:
        for entry in self._consumers:
            queue = self._queue_of(entry)
            concurrency = entry.values.get("max_concurrency")
            if concurrency is not None and not 1 <= concurrency <= CONCURRENCY_MAX:
                entry.fault("max_concurrency", f"must be from 1 to {CONCURRENCY_MAX}")
            if queue is not None:
                name = entry.values.get("name")
                yield Consumer(queue=queue, name=name, max_concurrency=concurrency)

    def subscriptions(self) -> Iterator[SubscriptionEntry]:
        keys = {"types": reading.text, "queue": reading.text, "shared": reading.flag}
        seen: dict[tuple[Any, ...], Entry] = {}
        for entry in self._found.entries("subscriptions", keys):
            types = entry.required("types", 'a type or a beginning, such as types = "order.*"')
            queue = self._queue_of(entry)
            if types is None or queue is None:
                continue
            for fault in pattern_faults(types):
                entry.fault(fault.field, fault.message)
            shared = entry.values.get("shared", False)
            if shared and not self._is_shared(queue):
                entry.fault("shared", f"queue {reading.shown(queue)} is not shared; say shared = "
                            f"true in {self._place(queue)} as well")  # fmt: skip
            first = seen.setdefault((types, queue, shared), entry)
            if first is not entry:
                entry.fault("types", f"is the same as {first.place}; take one out")
            yield SubscriptionEntry(types=types, queue=queue, shared=shared)

    def _served(self) -> dict[str, Entry]:
        """The one consumer of each queue."""
        served: dict[str, Entry] = {}
        for entry in self._consumers:
            name = entry.values.get("queue")
            if name is None:
                continue
            first = served.setdefault(name, entry)
            if first is not entry:
                entry.fault("queue", f"{reading.shown(name)} has its consumer in {first.place}; a "
                            "queue has one, in as many processes as you like")  # fmt: skip
        return served

    def _agreed(self, queue: Entry, consumer: Entry) -> dict[str, reading.Placed]:
        """What a consumer says of its queue; said on both sides it must be the same."""
        own, theirs = queue.settings(), consumer.settings()
        for field in own.keys() & theirs.keys():
            if own[field].value != theirs[field].value:
                place = theirs[field].place
                self._found.faults.append(
                    FieldError(place, f"is not what {own[field].place} says; keep one of them")
                )
        return theirs

    def _check(self, name: str, placed: Mapping[str, reading.Placed]) -> QueueSettings:
        """The settings, with faults told where their values stand."""
        made = QueueSettings(**{field: each.value for field, each in placed.items()})
        try:
            check_queue(name, made)
        except InvalidInput as error:
            for fault in error.errors:
                field, dot, rest = fault.field.partition(".")
                entry = self._named.get(name)
                if field in placed:
                    place = f"{placed[field].place}{dot}{rest}"
                else:
                    place = f"{entry.place}.{field}" if entry else field
                self._found.faults.append(FieldError(place, fault.message))
        return made

    def _check_dead_letters(self, entry: Entry, placed: Mapping[str, reading.Placed]) -> None:
        dead = placed.get("dead_letter_queue")
        if dead is None:
            return
        if entry.values.get("shared", False) and not self._is_shared(dead.value):
            self._fault(dead.place, f"is of one tenant, and {entry.place} is shared: say shared = "
                        f"true in {self._place(dead.value)} as well")  # fmt: skip

    def _check_rounds(self, served: Mapping[str, Entry]) -> None:
        """No message may die round and round."""
        leads: dict[str, reading.Placed] = {}
        for name, entry in self._named.items():
            consumer = served.get(name)
            settings = {**entry.settings(), **(consumer.settings() if consumer else {})}
            if "dead_letter_queue" in settings:
                leads[name] = settings["dead_letter_queue"]
        cleared: set[str] = set()
        for start in leads:
            path: dict[str, None] = {}
            at = start
            while at in leads and at not in cleared and at not in path:
                path[at] = None
                at = leads[at].value
            names = [*path]
            if at in path and len(names) - names.index(at) > 1:
                way = " → ".join([*names[names.index(at) :], at])
                self._fault(leads[at].place, f"goes round: {way}; let one of them have none")
            cleared.update(path)

    def _queue_of(self, entry: Entry) -> str | None:
        name = entry.required("queue", "the name of a queue")
        if name is None or name in self._named or name in self._implied:
            return name
        entry.fault("queue", self._no_queue(name))
        return None

    def _no_queue(self, name: str) -> str:
        advice = f"add [[queues]] with name = {reading.quoted(name)}"
        return f"there is no queue {reading.shown(name)} here; " + reading.alternatives(
            name, [*self._named, *self._implied], otherwise=advice
        )

    def _place(self, name: str) -> str:
        """Where a queue stands, or would stand."""
        entry = self._named.get(name)
        return f"[[queues]] with name = {reading.quoted(name)}" if entry is None else entry.place

    def _is_shared(self, name: str) -> bool:
        entry = self._named.get(name)
        return self._implied[name] if entry is None else bool(entry.values.get("shared", False))

    def _fault(self, place: str, message: str) -> None:
        self._found.faults.append(FieldError(place, message))


def _tables(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InvalidInput([FieldError(file, "is nested too deep")]) from None
    except ValueError as error:
        raise InvalidInput([FieldError(file, f"is not valid TOML: {error}")]) from None


def _section_faults(tables: Mapping[str, object], file: str) -> Iterator[FieldError]:
    known = [*SECTIONS, *OTHER_SECTIONS]
    for name in tables:
        if name not in known:
            said = reading.alternatives(name, known, otherwise=f"use {', '.join(known)}")
            yield FieldError(file, f"{reading.shown(name)} is not a section; {said}")
