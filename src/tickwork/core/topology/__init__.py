"""Topology: a file that lists queues, their producers, consumers and subscriptions.

```
  [limits]          default settings for every queue
  [[queues]]        name, settings, shared, paused
  [[producers]]     name, queue
  [[consumers]]     queue, name, max_concurrency, and settings of the queue
  [[subscriptions]] types, queue, shared
  [[services]]      name, url, callers
```

Contract: `parse` returns a topology in which every queue name exists, or raises `InvalidInput` with
all errors. Each error names its path in the file (`queues[2].max_retries`) and how to fix it. A
dead-letter queue needs no entry: naming it creates it. Other sections of the file are ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from tickwork.core.fields import FieldReader, Reader, shown
from tickwork.core.limits import hidden_queue_faults
from tickwork.core.message.subscription import pattern_faults
from tickwork.core.model import QueueSettings
from tickwork.core.near_names import nearest
from tickwork.core.queue.fields import SETTINGS, check_queue
from tickwork.core.topology.fields import Located, SectionEntry, Sections, alternatives, quoted
from tickwork.errors import FieldError, InvalidInput

FILE = "tickwork.toml"
ENTRIES_MAX = 10_000
CONCURRENCY_MAX = 10_000

SECTIONS = ("queues", "producers", "consumers", "subscriptions", "services", "limits")
"""Sections of the file that belong to the topology."""

OTHER_SECTIONS = ("server", "jwt")

_QUEUE_KEYS: dict[str, FieldReader] = {
    "name": Reader.string,
    "shared": Reader.boolean,
    "paused": Reader.boolean,
}
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
    """A queue that should exist. `paused` None keeps its current state. An `implied` queue, the
    dead-letter queue of another, is created if it does not exist and is not changed otherwise."""

    name: str
    settings: QueueSettings = QueueSettings()
    shared: bool = False
    paused: bool | None = None
    implied: bool = False


class Producer(Struct, frozen=True, kw_only=True):
    """A named sender to a queue."""

    name: str
    queue: str


class Consumer(Struct, frozen=True, kw_only=True):
    """A consumer of a queue. `max_concurrency` is the number of invocations at a time; None scales
    it automatically. A consumer from an app may handle one `type`; one from a file handles all."""

    queue: str
    name: str | None = None
    max_concurrency: int | None = None
    type: str | None = None


class SubscriptionEntry(Struct, frozen=True, kw_only=True):
    """A subscription that should exist; a shared one receives the messages of every tenant."""

    types: str
    queue: str
    shared: bool = False


class ServiceEntry(Struct, frozen=True, kw_only=True):
    """A service that apps call by its name. `callers` are the producers and consumers that call
    it. One without a `url` is bound in the code of the app."""

    name: str
    url: str | None
    callers: tuple[str, ...] = ()


class Topology(Struct, frozen=True, kw_only=True):
    """The content of a topology file."""

    queues: tuple[QueueEntry, ...] = ()
    producers: tuple[Producer, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    subscriptions: tuple[SubscriptionEntry, ...] = ()
    services: tuple[ServiceEntry, ...] = ()


def parse(text: str, *, file: str = FILE) -> Topology:
    """Parses a topology file. `file` is its name in errors that have no path in it."""
    tables = _tables(text, file)
    faults: list[FieldError] = [*section_faults(tables, file)]
    parsed = _Parser(Sections(tables, faults, entries_max=ENTRIES_MAX))
    topology = Topology(
        queues=tuple(parsed.queues()),
        producers=tuple(parsed.producers()),
        consumers=tuple(parsed.consumers()),
        subscriptions=tuple(parsed.subscriptions()),
        services=tuple(parsed.services()),
    )
    if faults:
        raise InvalidInput(dict.fromkeys(faults))
    return topology


class _Parser:
    """Parses the entries of one file and checks them against each other."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._limits = sections.table("limits", {name: SETTINGS[name] for name in _LIMITS})
        self._queues = sections.entries("queues", {**_QUEUE_KEYS, **SETTINGS})
        self._consumers = sections.entries(
            "consumers",
            {
                "queue": Reader.string,
                "name": Reader.string,
                "max_concurrency": Reader.whole_number,
                **SETTINGS,
            },
        )
        self._named: dict[str, SectionEntry] = {}
        for entry in self._queues:
            self._add_name(entry)
        self._implied: dict[str, bool] = {}
        for entry, owner in [
            *((queue, queue.values.get("name")) for queue in self._queues),
            *((consumer, consumer.values.get("queue")) for consumer in self._consumers),
        ]:
            self._add_implied(owner, entry.values.get("dead_letter_queue"))

    def _add_name(self, entry: SectionEntry) -> None:
        name = entry.required("name", 'a name, such as name = "emails"')
        if name is None:
            return
        for fault in hidden_queue_faults("name", name):
            entry.fault(fault.field, fault.message)
        first = self._named.setdefault(name, entry)
        if first is not entry:
            entry.fault(
                "name", f"{shown(name)} is already defined in {first.path}; remove one of them"
            )

    def _add_implied(self, owner: str | None, dead: str | None) -> None:
        """Adds the dead-letter queue of a queue. It is shared if one of its owners is."""
        if owner in self._named and dead is not None and dead not in self._named:
            self._implied[dead] = self._implied.get(dead, False) or self._is_shared(owner)

    def queues(self) -> Iterator[QueueEntry]:
        served = self._served()
        self._check("limits", self._limits.settings())
        for name, entry in self._named.items():
            settings = {**self._limits.settings(), **entry.settings()}
            consumer = served.get(name)
            if consumer is not None:
                settings.update(self._consumer_settings(entry, consumer))
            made = self._check(name, settings)
            yield QueueEntry(
                name=name,
                settings=made,
                shared=entry.values.get("shared", False),
                paused=entry.values.get("paused"),
            )
            self._check_dead_letter_queue(entry, settings)
        self._check_cycles(served)
        defaults = {field: setting.value for field, setting in self._limits.settings().items()}
        for name, shared in self._implied.items():
            made = QueueSettings(**defaults)
            yield QueueEntry(name=name, settings=made, shared=shared, implied=True)

    def producers(self) -> Iterator[Producer]:
        seen: dict[tuple[Any, Any], SectionEntry] = {}
        for entry in self._sections.entries(
            "producers", {"name": Reader.string, "queue": Reader.string}
        ):
            name = entry.required("name", 'a name, such as name = "shop"')
            queue = self._queue_of(entry)
            if name is None or queue is None:
                continue
            first = seen.setdefault((name, queue), entry)
            if first is not entry:
                entry.fault("queue", f"is the same as in {first.path}; remove one of them")
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
        keys = {"types": Reader.string, "queue": Reader.string, "shared": Reader.boolean}
        seen: dict[tuple[Any, ...], SectionEntry] = {}
        for entry in self._sections.entries("subscriptions", keys):
            types = entry.required("types", 'a type or a prefix, such as types = "order.*"')
            queue = self._queue_of(entry)
            if types is None or queue is None:
                continue
            for fault in pattern_faults(types):
                entry.fault(fault.field, fault.message)
            shared = entry.values.get("shared", False)
            if shared and not self._is_shared(queue):
                entry.fault("shared", f"queue {shown(queue)} is not shared; set shared = "
                            f"true in {self._path_of(queue)} as well")  # fmt: skip
            first = seen.setdefault((types, queue, shared), entry)
            if first is not entry:
                entry.fault("types", f"is the same as in {first.path}; remove one of them")
            yield SubscriptionEntry(types=types, queue=queue, shared=shared)

    def services(self) -> Iterator[ServiceEntry]:
        seen: dict[str, SectionEntry] = {}
        keys = {"name": Reader.string, "url": Reader.string, "callers": Reader.strings}
        for entry in self._sections.entries("services", keys):
            name = entry.required("name", 'a name, such as name = "keys"')
            if name is None:
                continue
            url = entry.values.get("url")
            scheme, found, host = (url or "").partition("://")
            is_url = found and scheme in ("http", "https") and host.strip("/")
            if url is not None and not is_url:
                entry.fault(
                    "url", f"must be a URL such as https://keys.example.com, not {shown(url)}"
                )
            first = seen.setdefault(name, entry)
            if first is not entry:
                entry.fault("name", f"{shown(name)} is already defined in {first.path}; remove one "
                            "of them")  # fmt: skip
            yield ServiceEntry(name=name, url=url, callers=entry.values.get("callers", ()))

    def _served(self) -> dict[str, SectionEntry]:
        """The one consumer of each queue."""
        served: dict[str, SectionEntry] = {}
        for entry in self._consumers:
            name = entry.values.get("queue")
            if name is None:
                continue
            first = served.setdefault(name, entry)
            if first is not entry:
                entry.fault("queue", f"{shown(name)} already has a consumer in {first.path}; a "
                            "queue has one consumer, which may run in many processes")  # fmt: skip
        return served

    def _consumer_settings(self, queue: SectionEntry, consumer: SectionEntry) -> dict[str, Located]:
        """The settings that a consumer gives its queue; given on both sides they must be equal."""
        own, theirs = queue.settings(), consumer.settings()
        for field in own.keys() & theirs.keys():
            if own[field].value != theirs[field].value:
                message = f"differs from {own[field].path}; keep one of them"
                self._fault(theirs[field].path, message)
        return theirs

    def _check(self, name: str, located: Mapping[str, Located]) -> QueueSettings:
        """The settings of a queue; errors name the path of the value."""
        made = QueueSettings(**{field: value.value for field, value in located.items()})
        try:
            check_queue(name, made)
        except InvalidInput as error:
            for fault in error.errors:
                field, dot, rest = fault.field.partition(".")
                entry = self._named.get(name)
                if field in located:
                    path = f"{located[field].path}{dot}{rest}"
                else:
                    path = f"{entry.path}.{field}" if entry else field
                self._fault(path, fault.message)
        return made

    def _check_dead_letter_queue(self, entry: SectionEntry, located: Mapping[str, Located]) -> None:
        dead = located.get("dead_letter_queue")
        if dead is None:
            return
        if entry.values.get("shared", False) and not self._is_shared(dead.value):
            self._fault(dead.path, f"belongs to one tenant but {entry.path} is shared; set shared "
                        f"= true in {self._path_of(dead.value)} as well")  # fmt: skip

    def _check_cycles(self, served: Mapping[str, SectionEntry]) -> None:
        """Dead-letter queues must not form a cycle."""
        targets: dict[str, Located] = {}
        for name, entry in self._named.items():
            consumer = served.get(name)
            settings = {**entry.settings(), **(consumer.settings() if consumer else {})}
            if "dead_letter_queue" in settings:
                targets[name] = settings["dead_letter_queue"]
        cleared: set[str] = set()
        for start in targets:
            path: dict[str, None] = {}
            at = start
            while at in targets and at not in cleared and at not in path:
                path[at] = None
                at = targets[at].value
            names = [*path]
            if at in path and len(names) - names.index(at) > 1:
                cycle = " → ".join([*names[names.index(at) :], at])
                message = f"is a cycle: {cycle}; remove one dead_letter_queue"
                self._fault(targets[at].path, message)
            cleared.update(path)

    def _queue_of(self, entry: SectionEntry) -> str | None:
        name = entry.required("queue", "the name of a queue")
        if name is None or name in self._named or name in self._implied:
            return name
        entry.fault("queue", self._no_queue(name))
        return None

    def _no_queue(self, name: str) -> str:
        advice = f"add [[queues]] with name = {quoted(name)}"
        return f"there is no queue {shown(name)} in the file; " + alternatives(
            name, [*self._named, *self._implied], otherwise=advice
        )

    def _path_of(self, name: str) -> str:
        """The path of a queue's entry, or of the one to add."""
        entry = self._named.get(name)
        return f"[[queues]] with name = {quoted(name)}" if entry is None else entry.path

    def _is_shared(self, name: str) -> bool:
        entry = self._named.get(name)
        return self._implied[name] if entry is None else bool(entry.values.get("shared", False))

    def _fault(self, path: str, message: str) -> None:
        self._sections.faults.append(FieldError(path, message))


def _tables(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InvalidInput([FieldError(file, "is nested too deep")]) from None
    except ValueError as error:
        raise InvalidInput([FieldError(file, f"is not valid TOML: {error}")]) from None


def section_faults(tables: Iterable[str], file: str) -> Iterator[FieldError]:
    """Errors of a file that has unknown sections."""
    known = [*SECTIONS, *OTHER_SECTIONS]
    for name in tables:
        if name not in known:
            near = nearest(name, known)
            advice = f"use {', '.join(known)}" if near is None else f"did you mean {near!r}?"
            yield FieldError(file, f"{shown(name)} is not a known section; {advice}")
