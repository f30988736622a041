"""Every error Tickwork raises on purpose, in one tree, each with a stable code.

```
TickworkError
├── InvalidInput         the caller's data is wrong: which field, and what to do
├── NotFound             no such thing in this scope
├── Conflict             it exists already, or is still in use
├── BacklogFull          a queue has as much as it may have: send again later
├── TooMany              a tenant has as many as it may, or asks too fast: raise its limit, or wait
├── ClaimLost            the work was handed out anew; nothing of this holder's counts
├── EventDone            the event was done already; ack this double without its effects
├── NodeExpired          a node's lease ran out: take a new identity
├── MissingExtra         an optional dependency is not installed: which one, and how to get it
└── StoreError           the database
    ├── StoreUnavailable     cannot be reached or written now: try again
    └── StoreBroken          will not get better by trying: corrupt, read-only, wrong schema
```

A code never changes its meaning; texts may improve. Errors that name a field carry one
`FieldError` per fault, so that a caller can mend everything at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple


class FieldError(NamedTuple):
    """One fault in one field, said so that a person knows what to do."""

    field: str
    message: str


class TickworkError(Exception):
    """The root of the tree; `code` is stable and meant for programs."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[type[TickworkError], tuple[object, ...]]:
        # An error may cross to another process; its own constructor must make it again there.
        return type(self), self._made_of()

    def _made_of(self) -> tuple[object, ...]:
        """What the constructor was given."""
        return self.args


class InvalidInput(TickworkError):
    """Bad input: nothing was stored, and every faulty field is named."""

    code = "invalid_input"

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in self.errors))

    def _made_of(self) -> tuple[object, ...]:
        return (self.errors,)


class NotFound(TickworkError):
    """There is no such thing, or it belongs to somebody else."""

    code = "not_found"

    def __init__(self, kind: str, name: object, hint: str | None = None) -> None:
        self.kind, self.name, self.hint = kind, name, hint
        super().__init__(f"there is no {kind} {name}" + (f"; {hint}" if hint else ""))

    def _made_of(self) -> tuple[object, ...]:
        return self.kind, self.name, self.hint


class Conflict(TickworkError):
    """What is asked for does not fit what is there."""

    code = "conflict"


class BacklogFull(TickworkError):
    """A queue holds as many bytes as it may: nothing was stored, and later it may be."""

    code = "backlog_full"

    def __init__(self, queue: str, bytes_max: int) -> None:
        self.queue, self.bytes_max = queue, bytes_max
        super().__init__(
            f"queue {queue} holds its limit of {bytes_max} bytes; send again when it has less, "
            "or raise backlog_bytes_max"
        )

    def _made_of(self) -> tuple[object, ...]:
        return self.queue, self.bytes_max


class TooMany(TickworkError):
    """A tenant has as many of something as it may, or asks for them too fast."""

    code = "too_many"


class ClaimLost(TickworkError):
    """A claim is no longer held: its holder was taken for dead, and the message given on."""

    code = "claim_lost"

    def __init__(self, message_ids: Iterable[object]) -> None:
        self.message_ids = tuple(message_ids)
        shown = ", ".join(str(each) for each in self.message_ids[:5])
        super().__init__(f"no longer held: {shown}; what was done with it did not happen")

    def _made_of(self) -> tuple[object, ...]:
        return (self.message_ids,)


class EventDone(TickworkError):
    """A joint settlement of an event that was done before: nothing happened, and the message
    is still held. Ack it by itself."""

    code = "event_done"

    def __init__(self, message_ids: Iterable[object]) -> None:
        self.message_ids = tuple(message_ids)
        shown = ", ".join(str(each) for each in self.message_ids[:5])
        super().__init__(f"done already by another message: {shown}; ack it without its effects")

    def _made_of(self) -> tuple[object, ...]:
        return (self.message_ids,)


class NodeExpired(TickworkError):
    """A node's lease ran out; what it held has been given to others, or will be."""

    code = "node_expired"

    def __init__(self, node_id: object) -> None:
        self.node_id = node_id
        super().__init__(f"the lease of node {node_id} ran out; join again under a new identity")

    def _made_of(self) -> tuple[object, ...]:
        return (self.node_id,)


class MissingExtra(TickworkError):
    """An optional dependency is not installed. The message names the extra to install."""

    code = "missing_extra"

    def __init__(self, feature: str, dependency: str, extra: str) -> None:
        self.feature, self.dependency, self.extra = feature, dependency, extra
        super().__init__(f"{feature} needs the {dependency}: pip install 'tickwork[{extra}]'")

    def _made_of(self) -> tuple[object, ...]:
        return self.feature, self.dependency, self.extra


class StoreError(TickworkError):
    """The database did not do what was asked; nothing was half done."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached or written at the moment."""

    code = "store_unavailable"


class StoreBroken(StoreError):
    """The database cannot be used as it is; somebody must look at it."""

    code = "store_broken"
