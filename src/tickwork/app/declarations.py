"""The declarations of an app (queues, handlers, schedules) and the checks across them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from weakref import WeakSet

from msgspec import Struct, structs

from tickwork.app.app_name import UNKNOWN_MODULE_NAME
from tickwork.app.handlers import (
    check_own_queue,
    check_type_name,
    name_of,
    queue_settings,
    shape_fault,
)
from tickwork.app.http import HttpHandlerDeclaration
from tickwork.app.isolation import (
    CPU_SECONDS,
    MEMORY_BYTES,
    Isolation,
    isolation_fault,
    limit_faults,
)
from tickwork.app.payloads import Payload, PayloadOf, ReadAs, no_types
from tickwork.app.services import ServiceDeclaration
from tickwork.app.workflows import WorkflowDeclaration
from tickwork.core.fields import no_queue
from tickwork.core.model import QueueSettings
from tickwork.core.near_names import nearest
from tickwork.core.queue.rooms import ClaimGate
from tickwork.core.workflow.queue import workflow_of_queue
from tickwork.errors import FieldError, InvalidInput

CONCURRENCY_MAX = 10_000
TYPES_KNOWN_MAX = 10_000
"""Maximum number of message types whose payloads are cached."""


class QueueDeclaration(Struct, frozen=True, kw_only=True):
    """A queue the app uses. If `is_shared`, all tenants use one queue.

    Without `has_settings` a stored queue keeps its settings, and a missing one is created with the
    defaults. The same holds if `is_implied`: the queue is not declared, only named as another's
    dead-letter queue.
    """

    name: str
    settings: QueueSettings
    payload: Payload[Any]
    is_shared: bool = False
    has_settings: bool = False
    is_implied: bool = False


class HandlerDeclaration(Struct, frozen=True, kw_only=True):
    """A function that handles the messages of a queue: of one type, or of any (None). If
    `is_firing`, it calls a scheduled function."""

    queue: str
    function: Callable[..., Any]
    payload: Payload[Any]
    is_batch: bool
    is_firing: bool = False
    type: str | None = None
    isolation: Isolation = Isolation.TASK
    max_concurrency: int | None = None
    cpu_seconds: float = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES

    @property
    def declared_function(self) -> Callable[..., Any]:
        """The function in the app's module."""
        return self.function.__wrapped__ if self.is_firing else self.function  # type: ignore[attr-defined]

    @property
    def name(self) -> str:
        """Module and qualified name of the function."""
        return name_of(self.function)


class ScheduleDeclaration(Struct, frozen=True):
    """A schedule declared in code: its name, and its fields as in the API."""

    name: str
    fields: dict[str, Any]


class Consumer(Struct, frozen=True):
    """All handlers of one queue. `operator_concurrency` is set by the operator and overrides the
    value in the code. `is_built_in`: the queue is one of Tickwork's own, which most apps leave
    empty. The `gate` says what to claim, if its receivers have limits."""

    queue: QueueDeclaration
    batch: HandlerDeclaration | None
    by_type: dict[str | None, HandlerDeclaration]
    operator_concurrency: int | None = None
    is_built_in: bool = False
    gate: ClaimGate | None = None

    def handler_for(self, message_type: str | None) -> HandlerDeclaration | None:
        """The handler of a type; if there is none, the handler of any type."""
        return self.batch or self.by_type.get(message_type) or self.by_type.get(None)

    @property
    def max_concurrency(self) -> int | None:
        """The concurrency set by the operator or in the code, if any."""
        if self.operator_concurrency is not None:
            return self.operator_concurrency
        handlers = [self.batch] if self.batch else [*self.by_type.values()]
        return handlers[0].max_concurrency  # All handlers of a queue have the same value.


class Registry:
    """The declarations of one app. `created` are the queues known to exist in its store."""

    _known: ClassVar[WeakSet[Registry]] = WeakSet()

    def __init__(self, app_name: str = UNKNOWN_MODULE_NAME) -> None:
        self._known.add(self)
        self.app_name = app_name
        self.created: set[str] = set()
        self._is_served = False
        self.stored: frozenset[str] | None = None
        """The queues in the database when it was last asked; None if it was not."""
        self.on_unknown: Callable[[], None] = lambda: None
        """Called when a handler names a queue that is neither declared nor stored."""
        self.home: Callable[[], object] = object
        """Returns the database and tenant of the app's messages."""
        self.queues: dict[str, QueueDeclaration] = {}
        self.handlers: list[HandlerDeclaration] = []
        self._sent: dict[tuple[str, str | None], Payload[Any]] = {}
        self._typed: dict[str, bool] = {}
        self.types_of_others: PayloadOf = no_types
        """The types of queues that another app declares, for a command that works for that app."""
        self.schedules: dict[str, ScheduleDeclaration] = {}
        self.workflows: dict[str, dict[str | None, WorkflowDeclaration]] = {}
        """The declared workflows by name and version, the newest version last."""
        self.http_handlers: list[HttpHandlerDeclaration] = []
        self.services: dict[str, ServiceDeclaration] = {}
        self.completions: dict[str, str] = {}
        """Queue → queue for the completion events of its batches."""

    @classmethod
    def known(cls) -> tuple[Registry, ...]:
        """The registries of all apps in this process."""
        return tuple(cls._known)

    @property
    def needs_handlers(self) -> bool:
        """Whether it declares a queue whose messages no endpoint gets."""
        return any(queue.settings.push_to is None for queue in self.queues.values())

    def add_queue(self, queue: QueueDeclaration) -> None:
        """Declares a queue. It may be declared again, in any order, but not with different settings
        or another payload."""
        known = self.queues.get(queue.name)
        if known is not None and known.is_implied:
            self.created.discard(queue.name)
            known = None
        if known is not None and not queue.has_settings:
            queue = structs.replace(queue, settings=known.settings)
        elif known is not None and not known.has_settings:
            self.created.discard(queue.name)  # If it was created, then with the defaults.
            known = structs.replace(known, settings=queue.settings)
        if known is not None and (known.settings, known.is_shared) != (
            queue.settings,
            queue.is_shared,
        ):
            fault = "is declared twice, with different settings; declare it once and reuse it"
            raise InvalidInput([FieldError(queue.name, fault)])
        if known is not None:
            payload = known.payload if queue.payload.is_plain else queue.payload
            if not known.payload.is_plain and payload.declared != known.payload.declared:
                fault = "is declared twice, with different payloads; declare it once and reuse it"
                raise InvalidInput([FieldError(queue.name, fault)])
            has_settings = known.has_settings or queue.has_settings
            queue = structs.replace(queue, payload=payload, has_settings=has_settings)
        self.queues[queue.name] = queue
        self._imply(queue.settings.dead_letter_queue, is_shared=queue.is_shared)
        self._sent.clear()
        self._typed.clear()

    def _imply(self, dead: str | None, *, is_shared: bool) -> None:
        """Adds a dead-letter queue that is named in settings but not declared."""
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
        """The queues to create before a queue is used: its dead-letter queue and itself."""
        if queue in self.created or queue not in self.queues:
            return ()
        dead = self.queues[queue].settings.dead_letter_queue
        return (queue,) if dead is None or dead in self.created else (dead, queue)

    def check_known(self, queue: str) -> None:
        """Raises `InvalidInput` for a queue that is neither declared nor known to be stored.

        Another app may have created it since: then the next attempt finds it.
        """
        if queue in self.queues:
            return
        check_own_queue("queue", queue)
        if self.stored is not None and queue not in self.stored:
            self.on_unknown()
            raise InvalidInput([FieldError("queue", self.no_queue(queue))])

    def no_queue(self, queue: str) -> str:
        """The fault of a queue that is neither declared nor stored."""
        known = [*self.queues, *(self.stored or ())]
        return no_queue(queue, known, otherwise=f"add app.queue({queue!r}) before it")

    def nearest(self, queue: str) -> str:
        """A hint for a queue that is not declared: the nearest name, or how to declare it."""
        near = nearest(queue, [*self.queues, *(self.stored or ())])
        return f"add app.queue({queue!r}) before it" if near is None else f"did you mean {near!r}?"

    def add_completion(self, queue: str) -> str:
        """Declares the queue for the completion events of a queue's batches; returns its name."""
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
        """Declares a schedule. Names are unique."""
        if schedule.name in self.schedules:
            fault = "is already the name of another schedule; give one of them another name"
            raise InvalidInput([FieldError(schedule.name, fault)])
        self.schedules[schedule.name] = schedule

    def add_http_handler(self, handler: HttpHandlerDeclaration) -> None:
        """Declares an HTTP handler. A method and path have one."""
        for other in self.http_handlers:
            if (other.route.method, other.route.shape) == (
                handler.route.method,
                handler.route.shape,
            ):
                route = f"{handler.route.method} {handler.route.path}"
                fault = f"{route} is already handled by {other.name}"
                raise InvalidInput([FieldError(handler.name, fault)])
        self.http_handlers.append(handler)

    def add_workflow(self, workflow: WorkflowDeclaration) -> None:
        """Declares a version of a workflow; the last one that is declared is the newest."""
        versions = self.workflows.get(workflow.name, {})
        fault = None
        if workflow.version in versions:
            fault = "is declared twice with one version; give each its own version"
        elif self._is_served:
            fault = "is declared while the app runs and would never be called; declare it before"
        if fault is not None:
            raise InvalidInput([FieldError(f"workflow {workflow.name}", fault)])
        self.workflows[workflow.name] = {**versions, workflow.version: workflow}

    def workflow(self, name: str, version: str | None = None) -> WorkflowDeclaration | None:
        """A declared workflow: that version, or else the newest one."""
        versions = self.workflows.get(name)
        if not versions:
            return None
        return versions[version] if version in versions else [*versions.values()][-1]

    def workflow_of(self, function: Callable[..., Any]) -> WorkflowDeclaration | None:
        """The workflow that is declared with a function."""
        for versions in self.workflows.values():
            for version in versions.values():
                if version.function is function:
                    return version
        return None

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Declares all or nothing: an error in the block undoes its declarations."""
        queues, handlers = self.queues.copy(), self.handlers.copy()
        schedules, completions = self.schedules.copy(), self.completions.copy()

        def undo() -> None:
            self.queues, self.handlers = queues, handlers
            self.schedules, self.completions = schedules, completions

        with ExitStack() as on_error:
            on_error.callback(undo)
            yield
            on_error.pop_all()

    @contextmanager
    def served(self) -> Iterator[None]:
        """The app runs in this block. Handlers declared meanwhile are refused."""
        self._is_served = True
        try:
            yield
        finally:
            self._is_served = False

    def add_handler(self, handler: HandlerDeclaration) -> None:
        """Declares a handler. Raises `InvalidInput` if it cannot work."""
        faults = [*_handler_faults(handler), *self._conflicts(handler)]
        if self._is_served:
            fault = "is declared while the app runs and would never be called; declare it before"
            faults.append(FieldError(handler.name, fault))
        if faults:
            raise InvalidInput(faults)
        self.handlers.append(handler)
        self._sent.clear()
        self._typed.clear()

    def check(self) -> None:
        """Raises `InvalidInput` for errors that show only when everything is declared."""
        faults = [
            FieldError(
                handler.name,
                f"consumes {handler.queue!r}, which is not declared; {self.nearest(handler.queue)}",
            )
            for handler in self.handlers
            if handler.queue not in self.queues
        ]
        for handler in self.handlers:
            declared = self.queues.get(handler.queue)
            if declared is not None and (push_to := declared.settings.push_to) is not None:
                faults.append(push_fault(handler.queue, push_to, handler.name))
        if faults:
            raise InvalidInput(faults)

    def consumers(self) -> Iterator[Consumer]:
        """The queues that have handlers, each with its handlers."""
        for name, queue in self.queues.items():
            own = [
                structs.replace(handler, payload=self.payload_of(handler))
                for handler in self.handlers
                if handler.queue == name
            ]
            if own:
                batch = next((handler for handler in own if handler.is_batch), None)
                by_type = {handler.type: handler for handler in own if not handler.is_batch}
                yield Consumer(queue, batch, by_type)

    def payload_of(self, handler: HandlerDeclaration) -> Payload[Any]:
        """The payload type a handler receives: its annotation, else the type of its queue."""
        queue = self.queues.get(handler.queue)
        return queue.payload if queue and handler.payload.is_plain else handler.payload

    def payload_sent(self, queue: str, message_type: str | None) -> Payload[Any] | None:
        """The payload type of messages sent to a queue: the type of the queue, else the annotation
        of the handler that will receive them. If both are given, a message has to fit both. Of the
        hidden queue of a workflow, the type of its params.

        None if the queue is not declared. Raises `InvalidInput` for a type that is not a text.
        """
        try:
            payload = self._sent.get((queue, message_type))
        except TypeError:  # It cannot be hashed, so it is not a text.
            check_type_name(message_type)
            raise
        if payload is None and queue in self.queues:
            payload = self._payload_sent(queue, message_type)
            if len(self._sent) < TYPES_KNOWN_MAX:
                self._sent[queue, message_type] = payload
        if payload is None and (workflow := workflow_of_queue(queue)) is not None:
            declared = self.workflow(workflow)
            payload = None if declared is None else declared.params
        return self.types_of_others(queue, message_type) if payload is None else payload

    def knows_types(self, queue: str) -> bool:
        """Whether the app itself says what a queue takes: it declares its type, or handles it."""
        known = self._typed.get(queue)
        if known is None:
            declared = self.queues.get(queue)
            is_typed = declared is not None and not declared.payload.is_plain
            known = is_typed or any(handler.queue == queue for handler in self.handlers)
            if len(self._typed) < TYPES_KNOWN_MAX:
                self._typed[queue] = known
        return known

    def _payload_sent(self, queue: str, message_type: str | None) -> Payload[Any]:
        declared = self.queues[queue].payload
        for consumer in self.consumers():
            if consumer.queue.name == queue and (handler := consumer.handler_for(message_type)):
                if declared.is_plain or handler.payload.declared == declared.declared:
                    return handler.payload
                return ReadAs(declared, handler.payload)
        return declared

    def _conflicts(self, handler: HandlerDeclaration) -> Iterator[FieldError]:
        for other in self.handlers:
            if other.queue != handler.queue:
                continue
            if other.is_batch or handler.is_batch:
                fault = (
                    f"{handler.queue!r} is already consumed by {other.name}; a queue has one "
                    "batch consumer, or handlers by type"
                )
                yield FieldError(handler.name, fault)
            elif other.max_concurrency != handler.max_concurrency:
                fault = (
                    f"max_concurrency is {handler.max_concurrency}, but {other.max_concurrency} on "
                    f"{other.name}: all handlers of a queue share max_concurrency; give the same "
                    f"value on all handlers of {handler.queue!r} or on none, or use another queue"
                )
                yield FieldError(handler.name, fault)
            elif other.type == handler.type:
                kind = "any type" if handler.type is None else f"type {handler.type!r}"
                yield FieldError(handler.name, f"{kind} is already handled by {other.name}")


def push_fault(queue: str, push_to: str, handler: str) -> FieldError:
    """The error of a queue with two consumers: an endpoint and a handler."""
    fault = f"consumes {queue!r}, which pushes to the endpoint {push_to!r}; remove one of them"
    return FieldError(handler, fault)


def _handler_faults(handler: HandlerDeclaration) -> Iterator[FieldError]:
    if (fault := shape_fault(handler.function)) is not None:
        yield FieldError(handler.name, fault)
        return
    if (fault := isolation_fault(handler.function, handler.isolation)) is not None:
        yield FieldError(handler.name, fault)
    if handler.isolation is Isolation.PROCESS and handler.is_batch:
        yield FieldError(handler.name, "takes batches, but a process handles one message at a time")
    if handler.max_concurrency is not None and not 1 <= handler.max_concurrency <= CONCURRENCY_MAX:
        yield FieldError(handler.name, f"max_concurrency must be from 1 to {CONCURRENCY_MAX}")
    for limit in limit_faults(handler.cpu_seconds, handler.memory_bytes):
        yield FieldError(handler.name, f"{limit.field} {limit.message}")


def hidden_consumer(
    name: str,
    settings: QueueSettings,
    handle: Callable[..., Any],
    max_concurrency: int | None = None,
    *,
    is_batch: bool = False,
    body_type: Any = Any,
    gate: ClaimGate | None = None,
) -> Consumer:
    """The built-in consumer of a hidden queue. For deliveries its concurrency is fixed: automatic
    concurrency grows as handlers finish, and those that wait for a slow host do not. A handler that
    decodes the stored body by itself has the `body_type` Raw, so that it is decoded once."""
    queue = QueueDeclaration(
        name=name,
        settings=settings,
        payload=Payload[Any](Any),
        is_shared=True,
        has_settings=True,
    )
    handler = HandlerDeclaration(
        queue=name,
        function=handle,
        payload=Payload[Any](body_type),
        is_batch=is_batch,
        max_concurrency=max_concurrency,
    )
    by_type: dict[str | None, HandlerDeclaration] = {} if is_batch else {None: handler}
    return Consumer(queue, handler if is_batch else None, by_type, is_built_in=True, gate=gate)
