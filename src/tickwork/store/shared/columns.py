"""The columns of stored records: each is listed once, and all lists of columns come from here.

SQL files name a list by a placeholder:

| placeholder | list |
|---|---|
| `/*columns*/` | a message, as `Message` has it (table alias `m`) |
| `/*sent*/` | what a message takes over from a `NewMessage` as it is |
| `/*new.sent*/` | the same, of the rows of `new` |
| `/*sent_arrays $13*/` | the same as typed array parameters, from `$13` on |
| `/*sent_values*/` | the same as `?` parameters |
| `/*plain*/`, `/*plain_parameters $6*/` | what a plain message has of it; as typed parameters |
| `/*kept*/` | what a dead letter takes over from its message as it is |
| `/*dead_letter*/` | a dead letter, as `StoredDeadLetter` has it (alias `l`) |
| `/*ended*/` | a record of the history (alias `r`) |
| `/*firing*/` | a record of a firing, as `FiringRecord` has it (alias `f`) |
| `/*schedule*/` | a schedule and its definition (alias `s`) |
| `/*new_schedule*/`, `/*new_schedule_arrays $2*/`, `/*new_schedule_values*/` | a new schedule |
| `/*endpoint*/` | an endpoint, as `ENDPOINT` lists it (alias `e`) |
| `/*returned_endpoint*/` | the same without an alias |
| `/*delivery*/` | a delivery, as `DELIVERY` lists it, and whether it is not dead (alias `d`) |
| `/*published*/`, `/*p.published*/` | a published event (the latter with alias `p`) |
| `/*api_key*/` | an API key, as `ApiKey` has it (alias `k`) |
| `/*returned_api_key*/` | the same without an alias, which RETURNING of SQLite does not know |
| `/*tenant*/` | a tenant, as `Tenant` has it (alias `t`) |
| `/*audit*/` | a record of the audit log, as `AuditRecord` has it (alias `a`) |
| `/*operation*/` | an operation, as `StoredOperation` has it (alias `o`) |
| `/*returned_operation*/` | the same of an `UPDATE`, which has no alias |
| `/*attempt*/` | an attempt, as `Attempt` has it (alias `a`) |
| `/*run*/` | a run of a workflow, as `Run` has it (alias `r`) |
| `/*run_step*/` | a step of a run, as `RunStep` has it (alias `s`) |
| `/*run_step_columns*/`, `/*new.run_step*/` | what is written of it, and of the rows of `new` |
| `/*run_step_arrays $8*/`, `/*run_step_values*/` | the same as parameters |
| `/*run_step_once $8*/` | the same of `new`; an array with one value holds it for all rows |
| `/*run_event*/` | an event of a run, as `RunEvent` has it (alias `e`) |
| `/*run_set $4*/` | assignments of what a decision changes in a run, from `$4` on |
| `/*definition_set $14*/` | assignments of the columns of a definition, from `$14` on |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.api_key import ApiKey
from tickwork.core.audit import AuditRecord
from tickwork.core.delivery.endpoint import Attempt, EndpointDelivery, Health
from tickwork.core.delivery.receiver import receiver_of_body
from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.model import FORMAT_VERSION, ContentType, Message, QueueSettings, Tenant
from tickwork.core.operation import StoredOperation
from tickwork.core.schedule.firing import FiringRecord
from tickwork.core.schedule.model import Definition, NewSchedule, bucket_of, stored_texts
from tickwork.core.workflow.model import Run, RunEvent, RunStep


class Kind(StrEnum):
    """The type of a column, by its name in PostgreSQL."""

    TEXT = "text"
    TEXTS = "text[]"
    ID = "uuid"
    TIME = "timestamptz"
    SMALL = "smallint"
    INTEGER = "integer"
    BIG = "bigint"
    FLOAT = "float8"
    FLAG = "boolean"
    BYTES = "bytea"


class Column(Struct, frozen=True):
    """A column of messages.

    `is_sent`: a new message has it, and it is stored as it is. `is_plain`: one without a key that
    is no slot, delivery or dead letter has it. `is_kept`: a dead letter takes it over. `is_rare`:
    nearly all messages have its default, which a claim on SQLite leaves out.
    """

    name: str
    kind: Kind
    default: object = None
    is_sent: bool = False
    is_plain: bool = False
    is_kept: bool = False
    is_rare: bool = False


def _column(name: str, kind: Kind, flags: str = "", default: object = None) -> Column:
    """Flags: `s`ent, `p`lain, `k`ept, `r`are."""
    return Column(name, kind, default, *(flag in flags for flag in "spkr"))


MESSAGE = (
    _column("tenant", Kind.TEXT),
    _column("id", Kind.ID, "sp"),
    _column("queue_id", Kind.ID),
    _column("state", Kind.TEXT, "", "ready"),
    _column("priority", Kind.SMALL, "spk", 4),
    _column("claim", Kind.BIG, "r", 0),
    _column("holder", Kind.ID),
    _column("claimed_at", Kind.TIME),
    _column("attempts", Kind.INTEGER, "r", 0),
    _column("lost", Kind.INTEGER, "r", 0),
    _column("visible_at", Kind.TIME),
    _column("sent_at", Kind.TIME, "k"),
    _column("key", Kind.TEXT, "skr"),
    _column("event_id", Kind.TEXT, "spkr"),
    _column("type", Kind.TEXT, "spk"),
    _column("source", Kind.TEXT, "spk"),
    _column("correlation_id", Kind.TEXT, "spkr"),
    _column("causation_id", Kind.TEXT, "spkr"),
    _column("hops", Kind.SMALL, "spkr", 0),
    _column("batch_id", Kind.ID, "kr"),
    _column("schedule_id", Kind.ID, "skr"),
    _column("slot", Kind.TIME, "skr"),
    _column("run", Kind.INTEGER, "skr", 0),
    _column("catch_up", Kind.FLAG, "sr", False),
    _column("due_at", Kind.TIME, "r"),
    _column("grace_seconds", Kind.INTEGER, "r"),
    _column("terms", Kind.TEXT, "r"),
    _column("idempotency_base", Kind.TEXT, "skr"),
    _column("death", Kind.TEXT, "skr"),
    _column("traceparent", Kind.TEXT, "spr"),
    _column("receiver", Kind.TEXT, "skr"),
    _column("content_type", Kind.TEXT, "spkr", ContentType.JSON),
    _column("format", Kind.SMALL, "kr", FORMAT_VERSION),
    _column("last_error", Kind.TEXT, "r"),
    _column("body", Kind.BYTES, "spk"),
)
"""A stored message, in the order of `Message`."""

SENT = tuple(column for column in MESSAGE if column.is_sent)
PLAIN = tuple(column for column in MESSAGE if column.is_plain)
KEPT = tuple(column for column in MESSAGE if column.is_kept)
RARE = tuple(column for column in MESSAGE if column.is_rare)

DEAD_LETTER = (
    ("id", Kind.ID),
    ("tenant", Kind.TEXT),
    ("queue_id", Kind.ID),
    ("message_id", Kind.ID),
    ("reason", Kind.TEXT),
    ("error", Kind.TEXT),
    ("fingerprint", Kind.TEXT),
    ("attempts", Kind.INTEGER),
    ("failed_at", Kind.TIME),
    ("resolution", Kind.TEXT),
    ("resolved_at", Kind.TIME),
    ("edited_at", Kind.TIME),
    ("replayed_as", Kind.ID),
    *((column.name, column.kind) for column in KEPT),
)
"""A dead letter: its own columns, and those that it takes over from its message."""

ENDED = (
    ("id", Kind.ID),
    ("outcome", Kind.TEXT),
    ("reason", Kind.TEXT),
    ("attempts", Kind.INTEGER),
    ("sent_at", Kind.TIME),
    ("started_at", Kind.TIME),
    ("type", Kind.TEXT),
    ("source", Kind.TEXT),
    ("key", Kind.TEXT),
    ("event_id", Kind.TEXT),
    ("correlation_id", Kind.TEXT),
    ("causation_id", Kind.TEXT),
    ("batch_id", Kind.ID),
    ("schedule_id", Kind.ID),
    ("slot", Kind.TIME),
    ("run", Kind.INTEGER),
    ("content_type", Kind.TEXT),
    ("body", Kind.BYTES),
)
"""A record of the history: what a chunk has of each ended message."""

NEW_SCHEDULE_OWN = (
    ("id", Kind.ID),
    ("bucket", Kind.SMALL),
    ("name", Kind.TEXT),
    ("owner", Kind.TEXT),
    ("idempotency_key", Kind.TEXT),
    ("fingerprint", Kind.BYTES),
    ("receiver", Kind.TEXT),
    ("metadata", Kind.BYTES),
    ("body", Kind.BYTES),
)
"""Columns in which schedules differ that are otherwise alike, in the order of `own_values`."""

NEW_SCHEDULE_COMMON = (
    ("status", Kind.TEXT),
    ("next_slot", Kind.TIME),
    ("due_at", Kind.TIME),
    ("look_at", Kind.TIME),
    ("grace_seconds", Kind.INTEGER),
    ("expires_after_seconds", Kind.FLOAT),
    ("priority", Kind.SMALL),
    ("overlap", Kind.TEXT),
    ("on_dead", Kind.TEXT),
    ("rule", Kind.TEXT),
    ("calendar", Kind.TEXT),
    ("terms", Kind.TEXT),
    ("retry", Kind.TEXT),
    ("queue", Kind.TEXT),
    ("type", Kind.TEXT),
    ("content_type", Kind.TEXT),
)
"""Columns that schedules which are alike have in common, in the order of `common_values`."""

NEW_SCHEDULE = (*NEW_SCHEDULE_OWN, *NEW_SCHEDULE_COMMON)

_PLANNED = ("status", "next_slot", "due_at", "look_at")
DEFINITION = (
    *(name for name, _ in NEW_SCHEDULE_COMMON if name not in _PLANNED),
    "receiver",
    "metadata",
    "body",
)
"""Columns of a schedule's definition, in the order of `definition_values`."""

SCHEDULE = (
    "tenant", "id", "name", "status", "version", "next_slot", "due_at", "look_at", "last_slot",
    "fired", "runs", "last_status", "last_error", "error_count", "idempotency_key",
    "fingerprint", "created_at", "updated_at", "changed_at", "rule", "queue", "body", "type",
    "content_type", "priority", "overlap", "on_dead", "retry", "expires_after_seconds",
    "metadata", "shift", "owner", "terms",
)  # fmt: skip
"""A stored schedule: its state, and then its definition."""

HEALTH = Health.__struct_fields__
ENDPOINT = (
    "id", "tenant", "name", "settings", *HEALTH, "disabled_at", "disabled_reason", "created_at",
    "updated_at", "probe_message_id", "probe_back_at",
)  # fmt: skip
"""A stored endpoint."""

DELIVERY = tuple(name for name in EndpointDelivery.__struct_fields__ if name != "status")
"""A stored delivery, in the order of `EndpointDelivery`."""

PUBLISHED = (
    "id", "priority", "hops", "type", "source", "correlation_id", "causation_id", "body",
)  # fmt: skip
"""What is stored of a published event, by the fields of `NewMessage`."""

API_KEY = ApiKey.__struct_fields__
"""A stored API key, in the order of `ApiKey`."""

RUN = Run.__struct_fields__
"""A stored run, in the order of `Run`."""

_RUN_FIXED = ("tenant", "id", "uid", "parent_id", "parent_step")
RUN_CHANGED = tuple(name for name in RUN if name not in _RUN_FIXED)
"""What a decision may change in a run."""

RUN_STEP = (
    ("key", Kind.TEXT),
    ("position", Kind.INTEGER),
    ("kind", Kind.TEXT),
    ("state", Kind.TEXT),
    ("attempts", Kind.INTEGER),
    ("output", Kind.BYTES),
    ("error", Kind.BYTES),
    ("wake_at", Kind.TIME),
    ("started_at", Kind.TIME),
    ("finished_at", Kind.TIME),
    ("ended", Kind.INTEGER),
    ("called", Kind.TEXT),
    ("args", Kind.BYTES),
)
"""What a worker writes of a step, in the order of `RunStep`."""


_RUN_STEP_NAMES = [name for name, _ in RUN_STEP]


def own_values(new: NewSchedule) -> tuple[Any, ...]:
    """The values of `NEW_SCHEDULE_OWN`."""
    definition = new.definition
    return (
        new.id, bucket_of(new.id), new.name, new.owner, new.idempotency_key, new.fingerprint,
        receiver_of_body(definition.queue, definition.body), definition.metadata, definition.body,
    )  # fmt: skip


def common_values(new: NewSchedule) -> tuple[Any, ...]:
    """The values of `NEW_SCHEDULE_COMMON`."""
    *definition, _receiver, _metadata, _body = definition_values(new.definition)
    return (str(new.status), new.next_slot, new.due_at, new.look_at, *definition)


def definition_values(definition: Definition) -> tuple[Any, ...]:
    """The values of `DEFINITION`."""
    rule, texts = definition.rule, stored_texts(definition)
    return (
        rule.missed.grace_seconds, definition.expires_after_seconds, definition.priority,
        str(definition.overlap), str(definition.on_dead), texts.rule, rule.calendar, texts.terms,
        texts.retry, definition.queue, definition.type, str(definition.content_type),
        receiver_of_body(definition.queue, definition.body), definition.metadata, definition.body,
    )  # fmt: skip


def compiled(parameters: str, expression: str, **known: object) -> Callable[..., Any]:
    """A function made from an expression over columns. It runs for every message, and takes a third
    of the time of `attrgetter`."""
    function: Callable[..., Any] = eval(f"lambda {parameters}: {expression}", known)  # noqa: S307
    return function


SENT_VALUES = ", ".join(f"m.{column.name}" for column in SENT)
PLAIN_VALUES = ", ".join(f"m.{column.name}" for column in PLAIN)
"""The values of `SENT` and `PLAIN` of a new message `m`, for `compiled`."""

IS_PLAIN = " and ".join(
    f"m.{column.name} {'is' if column.default is None else '=='} {column.default!r}"
    for column in SENT
    if not column.is_plain
)
"""Whether a new message `m` has no others, for `compiled`."""


def names(columns: Iterable[str], alias: str = "") -> str:
    """A list of columns, of a table alias if one is given."""
    return ", ".join(f"{alias}.{name}" if alias else name for name in columns)


def once(columns: Sequence[tuple[str, Kind]], first: int) -> str:
    """Columns of the rows `new`, made from array parameters of PostgreSQL from `first` on. An array
    with one value holds it for all rows: the driver checks and encodes each value of an array."""
    return ", ".join(
        f"CASE WHEN cardinality(${number}::{kind}[]) = 1 THEN (${number}::{kind}[])[1] "
        f"ELSE new.{name} END AS {name}"
        for number, (name, kind) in enumerate(columns, first)
    )


def arrays(kinds: Sequence[Kind], first: int) -> str:
    """Array parameters of PostgreSQL, numbered from `first`."""
    return ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(kinds, first))


def parameters(kinds: Sequence[Kind], first: int) -> str:
    """Parameters of PostgreSQL, numbered from `first`."""
    return ", ".join(f"${number}::{kind}" for number, kind in enumerate(kinds, first))


_SENT = [column.name for column in SENT]
_NEW_SCHEDULE = [name for name, _ in NEW_SCHEDULE]
_LISTS = {
    "columns": names(Message.__struct_fields__, "m"),
    "sent": names(_SENT),
    "new.sent": names(_SENT, "new"),
    "sent_values": names("?" * len(_SENT)),
    "plain": names(column.name for column in PLAIN),
    "kept": names(column.name for column in KEPT),
    "dead_letter": names(StoredDeadLetter.__struct_fields__, "l"),
    "firing": names(FiringRecord.__struct_fields__, "f"),
    "schedule": names(SCHEDULE, "s"),
    "new_schedule": names(_NEW_SCHEDULE),
    "endpoint": names(ENDPOINT, "e"),
    "returned_endpoint": names(ENDPOINT),
    "delivery": f"{names(DELIVERY, 'd')}, d.dead_at IS NULL AS is_alive",
    "published": names(PUBLISHED),
    "p.published": names(PUBLISHED, "p"),
    "api_key": names(API_KEY, "k"),
    "returned_api_key": names(API_KEY),
    "audit": names(AuditRecord.__struct_fields__, "a"),
    "operation": names(StoredOperation.__struct_fields__, "o"),
    "returned_operation": names(StoredOperation.__struct_fields__),
    "tenant": names(Tenant.__struct_fields__, "t"),
    "attempt": names(Attempt.__struct_fields__, "a"),
    "run": names(RUN, "r"),
    "run_step": names(RunStep.__struct_fields__, "s"),
    "new.run_step": names(_RUN_STEP_NAMES, "new"),
    "run_step_columns": names(_RUN_STEP_NAMES),
    "run_step_values": names("?" * len(RUN_STEP)),
    "run_event": names(RunEvent.__struct_fields__, "e"),
    "new_schedule_values": names("?" * len(_NEW_SCHEDULE)),
}
_ARRAYS = {
    "sent_arrays": [column.kind for column in SENT],
    "new_schedule_arrays": [kind for _, kind in NEW_SCHEDULE],
    "run_step_arrays": [kind for _, kind in RUN_STEP],
}
_SETS: dict[str, Sequence[str]] = {"definition_set": DEFINITION, "run_set": RUN_CHANGED}
_PLACEHOLDER = re.compile(r"/\*([a-z_.]+)(?: ([$?])(\d+))?\*/")


def fill_in(sql: str, known: Mapping[str, str]) -> str:
    """Replaces placeholders: lists of columns, and what is known by name. Others stay."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        mark = found[2]
        first = int(found[3] or 0)
        if name == "run_step_once":
            return once(RUN_STEP, first)
        if name in _ARRAYS:
            return arrays(_ARRAYS[name], first)
        if name == "plain_parameters":
            return parameters([column.kind for column in PLAIN], first)
        if name in _SETS:
            return ", ".join(f"{set_} = {mark}{at}" for at, set_ in enumerate(_SETS[name], first))
        return _LISTS.get(name) or known.get(name, found[0])

    return _PLACEHOLDER.sub(replacement, sql)


class _Declared(Struct, frozen=True):
    declared_by: str | None = None


_DECLARED = msgspec.json.Decoder(_Declared)


def settings_text(settings: QueueSettings, declared_by: str | None) -> str:
    """Encodes the settings of a queue for storage, with the app that declared them."""
    if declared_by is None:
        return msgspec.json.encode(settings).decode()
    fields = {**msgspec.to_builtins(settings), "declared_by": declared_by}
    return msgspec.json.encode(fields).decode()


def read_declared_by(text: str) -> str | None:
    """The app that declared stored settings, if one did."""
    return _DECLARED.decode(text).declared_by


def run_values(run: Run) -> tuple[Any, ...]:
    """The values of `RUN_CHANGED`."""
    return tuple(getattr(run, name) for name in RUN_CHANGED)
