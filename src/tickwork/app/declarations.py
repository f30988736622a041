"""What an app declares, as values; and what is wrong with it as a whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar
from weakref import WeakSet

from msgspec import Struct, structs

from tickwork.app.handlers import check_type_name, name_of, queue_settings, shape_fault
from tickwork.app.payloads import Payload, ReadAs
from tickwork.core.fields import Reader, reader_of
from tickwork.core.model import QueueSettings
from tickwork.errors import FieldError, InvalidInput

CONCURRENCY_MAX = 10_000
CPU_SECONDS = 30.0
CPU_SECONDS_MAX = 86_400.0
MEMORY_BYTES = 512 * 1024 * 1024
MEMORY_BYTES_MIN = 64 * 1024 * 1024
"""A process of Python's has a part of it before any handler runs."""

MEMORY_BYTES_MAX = 2**50
"""More than any machine has."""

TYPES_KNOWN_MAX = 10_000
"""Of so many types of messages it is remembered what they carry."""


_OPTIONS = {
    "max_concurrency": reader_of(int | None),
    "cpu_seconds": reader_of(float),
    "memory_bytes": reader_of(int),
}
_PROCESS_ONLY = ("cpu_seconds", "memory_bytes")


class Isolation(StrEnum):
    """Where a handler runs, and what it cannot do to others.

    | where | for | limits |
    |---|---|---|
    | task | coroutines | wall |
    | thread | plain functions | wall; a thread that does not end is left behind and counted |
    | process | either | wall, processor time, memory; killed, and nobody else is harmed |
    """

    TASK = "task"
    THREAD = "thread"
    PROCESS = "process"


class QueueDeclaration(Struct, frozen=True, kw_only=True):
    """A queue the app uses; `is_shared`: the messages of all tenants go into one. Without
    `says_settings` it is used as it is, and made with the defaults if it is not there; so is one
    that `is_implied`: nobody declares it, but the dead letters of another go there."""

    name: str
    settings: QueueSettings
    payload: Payload[Any]
    is_shared: bool = False
    says_settings: bool = False
    is_implied: bool = False


class HandlerDeclaration(Struct, frozen=True, kw_only=True):
    """A function that handles the messages of a queue: of one type, or (None) of any."""

    queue: str
    function: Callable[..., Any]
    payload: Payload[Any]
    is_batch: bool
    type: str | None = None
    isolation: Isolation = Isolation.TASK
    max_concurrency: int | None = None
    cpu_seconds: float = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES

    @property
    def name(self) -> str:
        """Where it is defined."""
        return name_of(self.function)


class ScheduleDeclaration(Struct, frozen=True):
    """A schedule that the code has: its name, and its fields as the API has them."""

    name: str
    fields: dict[str, Any]


class Consumer(Struct, frozen=True):
    """Everything that handles one queue; `operator_concurrency` is what whoever runs the app says,
    in place of what the code says."""

    queue: QueueDeclaration
    batch: HandlerDeclaration | None
    by_type: dict[str | None, HandlerDeclaration]
    operator_concurrency: int | None = None

    def handler_for(self, message_type: str | None) -> HandlerDeclaration | None:
        """Who handles a type; whoever takes any type, else."""
        return self.batch or self.by_type.get(message_type) or self.by_type.get(None)

    @property
    def max_concurrency(self) -> int | None:
        """By hand, if anybody said so."""
        if self.operator_concurrency is not None:
            return self.operator_concurrency
        handlers = [self.batch] if self.batch else [*self.by_type.values()]
        return handlers[0].max_concurrency  # They all say the same.


class Registry:
    """The declarations of one app. `made` are the queues that are known to be in its store."""

    _known: ClassVar[WeakSet[Registry]] = WeakSet()

    def __init__(self) -> None:
        self._known.add(self)
        self.made: set[str] = set()
        self._is_served = False
        self.home: Callable[[], object] = object
        """Which database and tenant the messages of its app are for."""
        self.queues: dict[str, QueueDeclaration] = {}
        self.handlers: list[HandlerDeclaration] = []
        self._sent: dict[tuple[str, str | None], Payload[Any]] = {}
        self.schedules: dict[str, ScheduleDeclaration] = {}
        self.completions: dict[str, str] = {}
        """Where batches of a queue tell that they have ended."""

    @classmethod
    def known(cls) -> tuple[Registry, ...]:
        """Those of all apps in this process."""
        return tuple(cls._known)

    def add_queue(self, queue: QueueDeclaration) -> None:
        """Declares a queue; again is no harm, with other settings or another payload it is.
        What is said once of a queue stays said, in whatever order."""
        known = self.queues.get(queue.name)
        if known is not None and known.is_implied:
            self.made.discard(queue.name)
            known = None
        if known is not None and not queue.says_settings:
            queue = structs.replace(queue, settings=known.settings)
        elif known is not None and not known.says_settings:
            self.made.discard(queue.name)  # It was made with the defaults, if at all.
            known = structs.replace(known, settings=queue.settings)
        if known is not None and (known.settings, known.is_shared) != (
            queue.settings,
            queue.is_shared,
        ):
            fault = "is declared twice, with different settings; declare it once and keep it"
            raise InvalidInput([FieldError(queue.name, fault)])
        if known is not None:
            payload = known.payload if queue.payload.is_plain else queue.payload
            if not known.payload.is_plain and payload.declared != known.payload.declared:
                fault = "is declared twice, with different payloads; declare it once and keep it"
                raise InvalidInput([FieldError(queue.name, fault)])
            says_settings = known.says_settings or queue.says_settings
            queue = structs.replace(queue, payload=payload, says_settings=says_settings)
        self.queues[queue.name] = queue
        self._imply(queue.settings.dead_letter_queue, is_shared=queue.is_shared)
        self._sent.clear()

    def _imply(self, dead: str | None, *, is_shared: bool) -> None:
        """To name a dead-letter queue is to want it: it is there, unless somebody declares it."""
        known = None if dead is None else self.queues.get(dead)
        if dead is None or (known and not (known.is_implied and is_shared)):
            return
        self.queues[dead] = QueueDeclaration(
            name=dead,
            settings=QueueSettings(),
            payload=Payload[Any](Any),
            is_shared=is_shared,
            is_implied=True,
        )

    def missing(self, queue: str) -> Sequence[str]:
        """What is to be made before a queue is used: where its dead letters go, and itself."""
        if queue in self.made or queue not in self.queues:
            return ()
        dead = self.queues[queue].settings.dead_letter_queue
        return (queue,) if dead is None or dead in self.made else (dead, queue)

    def nearest(self, queue: str) -> str:
        """What to do about a queue that is not declared: the nearest name, or to declare it."""
        near = get_close_matches(queue, self.queues, n=1)
        return f"did you mean {near[0]!r}?" if near else f"add app.queue({queue!r}) before it"

    def add_completion(self, queue: str) -> str:
        """Declares a queue for the ends of another one's batches, unless it is there; its name."""
        if queue not in self.queues:
            fault = f"is not declared; {self.nearest(queue)}"
            raise InvalidInput([FieldError(queue, fault)])
        name, payload = f"{queue}.completed", Payload[Any](Any)
        if name not in self.queues:
            settings, is_shared = queue_settings(name, {}), self.queues[queue].is_shared
            self.add_queue(
                QueueDeclaration(name=name, settings=settings, payload=payload, is_shared=is_shared)
            )
        self.completions[queue] = name
        return name

    def add_schedule(self, schedule: ScheduleDeclaration) -> None:
        """Declares a schedule; a name has one."""
        if schedule.name in self.schedules:
            fault = "is the name of another schedule already; give one of them another name"
            raise InvalidInput([FieldError(schedule.name, fault)])
        self.schedules[schedule.name] = schedule

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is declared meanwhile belongs together: if a part is refused, nothing of it is."""
        queues, handlers = self.queues.copy(), self.handlers.copy()
        schedules, completions = self.schedules.copy(), self.completions.copy()

        def undo() -> None:
            self.queues, self.handlers = queues, handlers
            self.schedules, self.completions = schedules, completions

        with ExitStack() as refused:
            refused.callback(undo)
            yield
            refused.pop_all()

    @contextmanager
    def served(self) -> Iterator[None]:
        """What is declared is served meanwhile; more would not be, and is refused."""
        self._is_served = True
        try:
            yield
        finally:
            self._is_served = False

    def add_handler(self, handler: HandlerDeclaration) -> None:
        """Declares a handler; what cannot be is refused where it is written."""
        faults = [*_handler_faults(handler), *self._crossed(handler)]
        if self._is_served:
            fault = "is declared while the app runs, and nobody would call it; declare it before"
            faults.append(FieldError(handler.name, fault))
        if faults:
            raise InvalidInput(faults)
        self.handlers.append(handler)
        self._sent.clear()

    def check(self) -> None:
        """Raises `InvalidInput` for what only shows when everything is declared."""
        faults = [
            FieldError(
                handler.name,
                f"consumes {handler.queue!r}, which is not declared; {self.nearest(handler.queue)}",
            )
            for handler in self.handlers
            if handler.queue not in self.queues
        ]
        if faults:
            raise InvalidInput(faults)

    def consumers(self) -> Iterator[Consumer]:
        """Who handles what, a queue at a time."""
        for name, queue in self.queues.items():
            own = [
                structs.replace(handler, payload=self.payload_of(handler))
                for handler in self.handlers
                if handler.queue == name
            ]
            if own:
                batch = next((each for each in own if each.is_batch), None)
                by_type = {each.type: each for each in own if not each.is_batch}
                yield Consumer(queue, batch, by_type)

    def payload_of(self, handler: HandlerDeclaration) -> Payload[Any]:
        """What a handler is given: what it is annotated with, else what its queue declares."""
        queue = self.queues.get(handler.queue)
        return queue.payload if queue and handler.payload.is_plain else handler.payload

    def payload_sent(self, queue: str, message_type: str | None) -> Payload[Any] | None:
        """What is sent to a queue: what the queue declares, else what the handler is annotated with
        that will be given it; if both say something, it has to fit both. None if the queue is not
        declared. `InvalidInput` for a type that cannot be looked up."""
        try:
            payload = self._sent.get((queue, message_type))
        except TypeError:  # It is nothing that can be looked up, and so no text.
            check_type_name(message_type)
            raise
        if payload is None and queue in self.queues:
            payload = self._payload_sent(queue, message_type)
            if len(self._sent) < TYPES_KNOWN_MAX:
                self._sent[queue, message_type] = payload
        return payload

    def _payload_sent(self, queue: str, message_type: str | None) -> Payload[Any]:
        declared = self.queues[queue].payload
        for consumer in self.consumers():
            if consumer.queue.name == queue and (handler := consumer.handler_for(message_type)):
                if declared.is_plain or handler.payload.declared == declared.declared:
                    return handler.payload
                return ReadAs(declared, handler.payload)
        return declared

    def _crossed(self, handler: HandlerDeclaration) -> Iterator[FieldError]:
        for other in self.handlers:
            if other.queue != handler.queue:
                continue
            if other.is_batch or handler.is_batch:
                fault = (
                    f"{handler.queue!r} is consumed by {other.name} already; a queue has one "
                    "batch consumer, or handlers by type"
                )
                yield FieldError(handler.name, fault)
            elif other.max_concurrency != handler.max_concurrency:
                fault = (
                    f"max_concurrency is {handler.max_concurrency}, and that of {other.name} "
                    f"{other.max_concurrency}: it is one number for all handlers of "
                    f"{handler.queue!r}; say the same on all of them or on none, or give one of "
                    "them a queue of its own"
                )
                yield FieldError(handler.name, fault)
            elif other.type == handler.type:
                kind = "any type" if handler.type is None else f"type {handler.type!r}"
                yield FieldError(handler.name, f"{kind} is handled by {other.name} already")


def _handler_faults(handler: HandlerDeclaration) -> Iterator[FieldError]:
    if (fault := shape_fault(handler.function)) is not None:
        yield FieldError(handler.name, fault)
        return
    is_coroutine = inspect.iscoroutinefunction(handler.function)
    if handler.isolation is Isolation.TASK and not is_coroutine:
        yield FieldError(handler.name, "is a plain function: use isolation='thread' or 'process'")
    if handler.isolation is Isolation.THREAD and is_coroutine:
        yield FieldError(handler.name, "is a coroutine function: use isolation='task' or 'process'")
    if handler.isolation is Isolation.PROCESS and handler.is_batch:
        yield FieldError(handler.name, "takes batches: a process handles one message at a time")
    if handler.max_concurrency is not None and not 1 <= handler.max_concurrency <= CONCURRENCY_MAX:
        yield FieldError(handler.name, f"max_concurrency must be from 1 to {CONCURRENCY_MAX}")
    if not 0 < handler.cpu_seconds <= CPU_SECONDS_MAX:
        yield FieldError(
            handler.name, f"cpu_seconds must be above 0, and at most {CPU_SECONDS_MAX:g}"
        )
    if handler.memory_bytes < MEMORY_BYTES_MIN:
        yield FieldError(handler.name, f"memory_bytes must be at least {MEMORY_BYTES_MIN}")
    if handler.memory_bytes > MEMORY_BYTES_MAX:
        yield FieldError(handler.name, f"memory_bytes must be at most {MEMORY_BYTES_MAX}")


def handler_options(given: dict[str, Any], *, is_coroutine: bool) -> dict[str, Any]:
    """All options of a handler; `InvalidInput` for those that it does not have."""
    known: dict[str, Any] = {
        "isolation": Isolation.TASK if is_coroutine else Isolation.THREAD,
        "max_concurrency": None,
        "cpu_seconds": CPU_SECONDS,
        "memory_bytes": MEMORY_BYTES,
    }
    faults: list[FieldError] = []
    chosen = known | given
    reader = Reader(chosen, faults)
    reader.refuse_unknown(known.keys())
    reader.one_of("isolation", Isolation)
    reader.read(_OPTIONS)
    if chosen["isolation"] != Isolation.PROCESS:
        fault = "is kept in a process only: add isolation='process', or leave it out"
        faults += [FieldError(name, fault) for name in _PROCESS_ONLY if name in given]
    if faults:
        raise InvalidInput(faults)
    return chosen | {"isolation": Isolation(chosen["isolation"])}
