"""The errors that Tickwork raises, each with a stable code.

```
TickworkError
├── InvalidInput         the input is wrong; lists each field and how to fix it
├── Unauthorized         the request has no valid API key or token
├── Forbidden            the caller may not do this; the code names what is missing
├── NotFound             it does not exist in this scope
├── Conflict             it already exists, or is still in use
│   ├── RequestRunning       the same request is still running; repeat it in a moment
│   └── OlderCode            newer code has written the entity; update this process
├── PreconditionFailed   it is not the version that the caller named; read it again
├── BacklogFull          the queue is at its size limit; send again later
├── TooMany              the tenant is at its limit or over its rate; raise the limit or wait
│   └── RateExceeded         the caller makes too many requests a second; wait
├── ClaimLost            another worker has claimed the message; nothing was written
├── EventDone            the event was processed before; ack this duplicate without its effects
├── NodeExpired          the lease of the node expired; join with a new id
├── StepFailed           a step of a workflow failed for good; names the step and its error
│   └── EventTimedOut        the event that a run waited for did not come in time
├── RunFailed            a run of a workflow ended without a result; says how
├── EntityBusy           other calls kept the entity for too long; call it again
├── EntityMoved          this process lost the entity; nothing was written, call it again
├── EntityCycle          a call would wait for itself; the message names the chain
├── EntityCallFailed     a method that was called over HTTP raised an error
├── ServiceUnavailable   a service did not answer: unreachable, too slow, or refused
├── ServiceFailed        a service answered with an error; raised by `answer.check()`
├── MissingExtra         an optional dependency is not installed; says how to install it
└── StoreError           the database failed
    ├── StoreUnavailable     it cannot be reached or written now; try again
    └── StoreBroken          retrying does not help: corrupt, read-only, wrong schema
```

A code never changes its meaning; messages may improve. `InvalidInput` has one `FieldError` per
wrong field, so that a caller can fix all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple
from uuid import UUID

_ERRORS_SHOWN_MAX = 100
"""Number of field errors in the text of an `InvalidInput`."""


class FieldError(NamedTuple):
    """What is wrong with one field, and how to fix it."""

    field: str
    message: str


class UnknownField(FieldError):
    """A field that does not exist; the message names the nearest one that does."""


class NulCharacter(FieldError):
    """A text with a NUL character, which no database stores."""


class TickworkError(Exception):
    """The base class of all errors. `code` is stable, for use in programs."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[type[TickworkError], tuple[object, ...]]:
        # An error may be sent to another process, where its constructor is called again.
        return type(self), self._init_args()

    def _init_args(self) -> tuple[object, ...]:
        """The arguments of the constructor."""
        return self.args


class InvalidInput(TickworkError):
    """The input is wrong. Nothing was stored; `errors` has every wrong field."""

    code = "invalid_input"

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        texts = [f"{error.field}: {error.message}" for error in self.errors[:_ERRORS_SHOWN_MAX]]
        if len(self.errors) > _ERRORS_SHOWN_MAX:
            texts.append(f"and {len(self.errors) - _ERRORS_SHOWN_MAX:,} more")
        super().__init__("; ".join(texts))

    def _init_args(self) -> tuple[object, ...]:
        return (self.errors,)


class _Refused(TickworkError):
    """A caller is refused. `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code  # type: ignore[misc]  # Each instance has its own.
        self.message = message
        super().__init__(message)

    def _init_args(self) -> tuple[object, ...]:
        return self.code, self.message


class Unauthorized(_Refused):
    """A request has no valid API key or token."""

    code = "unauthorized"


class Forbidden(_Refused):
    """A caller may not do this. The code is `needs_<scope>`, `owner_bound`, `target_not_allowed`
    or `tenant_suspended`."""

    code = "forbidden"


ID_PREFIXES = {
    "batch": "bat",
    "dead letter": "dead",
    "delivery": "dlv",
    "endpoint": "end",
    "firing": "fir",
    "message": "msg",
    "schedule": "sch",
}
"""The prefix of an id by the kind of what does not exist: that of `core.answers.ids.Prefix`."""


class NotFound(TickworkError):
    """It does not exist, or it belongs to another tenant."""

    code = "not_found"

    def __init__(self, kind: str, name: object, hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.hint = hint
        shown = name
        if isinstance(name, UUID) and kind in ID_PREFIXES:
            shown = f"{ID_PREFIXES[kind]}_{name.hex}"
        super().__init__(f"there is no {kind} {shown}" + (f"; {hint}" if hint else ""))

    def _init_args(self) -> tuple[object, ...]:
        return self.kind, self.name, self.hint


class Conflict(TickworkError):
    """The request conflicts with what is stored."""

    code = "conflict"


class RequestRunning(Conflict):
    """A request with the same idempotency key is still running. A repeat gets its answer."""

    code = "request_running"


class OlderCode(Conflict):
    """An entity was written by a newer `schema_version` of its class. The call did not run here."""

    code = "older_code"


class PreconditionFailed(TickworkError):
    """It was changed since the caller read it, or it was to be new and exists. Nothing was
    changed."""

    code = "precondition_failed"

    def __init__(
        self,
        kind: str,
        name: object,
        what: str = "was changed since you read it; read it and try again",
    ) -> None:
        self.kind, self.name = kind, name
        self.what = what
        super().__init__(f"{kind} {name} {what}")

    def _init_args(self) -> tuple[object, ...]:
        return self.kind, self.name, self.what


class BacklogFull(TickworkError):
    """A queue is at its size limit. Nothing was stored; a later send may succeed."""

    code = "backlog_full"

    def __init__(self, queue: str, bytes_max: int) -> None:
        self.queue, self.bytes_max = queue, bytes_max
        super().__init__(
            f"queue {queue} is at its limit of {bytes_max} bytes; send again later, or raise "
            "backlog_bytes_max"
        )

    def _init_args(self) -> tuple[object, ...]:
        return self.queue, self.bytes_max


class TooMany(TickworkError):
    """A tenant is at a limit, or over a rate. Nothing was stored. `limit` names it;
    `retry_after_seconds` is when a repeat may succeed, or None if only a change makes room."""

    code = "too_many"

    def __init__(
        self, message: str, limit: str = "", retry_after_seconds: float | None = None
    ) -> None:
        self.message = message
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)

    def _init_args(self) -> tuple[object, ...]:
        return self.message, self.limit, self.retry_after_seconds


class RateExceeded(TooMany):
    """A caller makes more requests than `rate_per_second`. Nothing was done."""

    code = "rate_exceeded"

    def __init__(
        self, message: str, limit: str, retry_after_seconds: float, rate_per_second: float
    ) -> None:
        self.rate_per_second = rate_per_second
        super().__init__(message, limit, retry_after_seconds)

    def _init_args(self) -> tuple[object, ...]:
        return *super()._init_args(), self.rate_per_second


class ClaimLost(TickworkError):
    """A claim is no longer valid: its holder was considered dead and the message was released."""

    code = "claim_lost"

    def __init__(self, message_ids: Iterable[object]) -> None:
        self.message_ids = tuple(message_ids)
        shown = ", ".join(str(id_) for id_ in self.message_ids[:5])
        super().__init__(f"claim lost: {shown}; nothing was written")

    def _init_args(self) -> tuple[object, ...]:
        return (self.message_ids,)


class EventDone(TickworkError):
    """A joint settlement of an event that was processed before. Nothing was written, and the claim
    is still valid: ack the message without its effects."""

    code = "event_done"

    def __init__(self, message_ids: Iterable[object]) -> None:
        self.message_ids = tuple(message_ids)
        shown = ", ".join(str(id_) for id_ in self.message_ids[:5])
        super().__init__(
            f"processed before by another message: {shown}; ack it without its effects"
        )

    def _init_args(self) -> tuple[object, ...]:
        return (self.message_ids,)


class NodeExpired(TickworkError):
    """The lease of a node expired. Its claims are released, or will be."""

    code = "node_expired"

    def __init__(self, node_id: object) -> None:
        self.node_id = node_id
        super().__init__(f"the lease of node {node_id} expired; join again with a new id")

    def _init_args(self) -> tuple[object, ...]:
        return (self.node_id,)


class StepFailed(TickworkError):
    """A step of a workflow failed for good. `error_type` is the class of its last error, and
    `error_message` its text. If an item of a map failed, `step` is the item, and `key` the map."""

    code = "step_failed"

    def __init__(
        self, step: str, error_type: str, error_message: str, key: str | None = None
    ) -> None:
        self.step = step
        self.error_type = error_type
        self.error_message = error_message
        self.key = key or step
        super().__init__(f"step {step!r} failed: {error_type}: {error_message}")

    def _init_args(self) -> tuple[object, ...]:
        return self.step, self.error_type, self.error_message, self.key


class EventTimedOut(StepFailed):
    """The event that a run waited for did not come in time."""

    code = "event_timed_out"


class RunFailed(TickworkError):
    """A run of a workflow ended without a result: `status` is failed, cancelled or terminated."""

    code = "run_failed"

    def __init__(self, run_id: str, status: str, error: str | None) -> None:
        self.run_id = run_id
        self.status = status
        self.error = error
        super().__init__(f"run {run_id} {status}" + (f": {error}" if error else ""))

    def _init_args(self) -> tuple[object, ...]:
        return self.run_id, self.status, self.error


class _EntityError(TickworkError):
    """A call of one entity failed."""

    def __init__(self, entity: str, key: str, text: str) -> None:
        self.entity = entity
        self.key = key
        self.text = text
        super().__init__(f"{entity} {key!r} {text}")

    def _init_args(self) -> tuple[object, ...]:
        return self.entity, self.key, self.text


class EntityBusy(_EntityError):
    """A call waited too long for its entity. It did not run."""

    code = "entity_busy"


class EntityMoved(_EntityError):
    """A call lost its entity, because the lease of its process expired. Nothing was written."""

    code = "entity_moved"


class EntityCycle(_EntityError):
    """A call into an entity that waits for this call. It did not run."""

    code = "entity_cycle"


class EntityCallFailed(_EntityError):
    """A method that was called over HTTP raised an error of its own. Nothing was written."""

    code = "call_failed"


class ServiceUnavailable(TickworkError):
    """A service did not answer. The call may have had an effect: repeat only what may be
    repeated."""

    code = "service_unavailable"

    def __init__(self, service: str, text: str) -> None:
        self.service, self.text = service, text
        super().__init__(f"service {service}: {text}")

    def _init_args(self) -> tuple[object, ...]:
        return self.service, self.text


class ServiceFailed(TickworkError):
    """A service answered with an error. `status` is that of the answer, `text` how its body
    begins."""

    code = "service_failed"

    def __init__(self, service: str, status: int, text: str) -> None:
        self.service = service
        self.status = status
        self.text = text
        super().__init__(f"service {service} answered {status}: {text}")

    def _init_args(self) -> tuple[object, ...]:
        return self.service, self.status, self.text


class MissingExtra(TickworkError):
    """An optional dependency is not installed. The message names the extra to install."""

    code = "missing_extra"

    def __init__(self, feature: str, dependency: str, extra: str) -> None:
        self.feature = feature
        self.dependency = dependency
        self.extra = extra
        super().__init__(f"{feature} needs the {dependency}: pip install 'tickwork[{extra}]'")

    def _init_args(self) -> tuple[object, ...]:
        return self.feature, self.dependency, self.extra


class StoreError(TickworkError):
    """The database failed. Nothing was stored in part."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached or written now."""

    code = "store_unavailable"


class StoreBroken(StoreError):
    """The database cannot be used until an operator fixes it."""

    code = "store_broken"
