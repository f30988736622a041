"""What the server answers about runs, entities, keys, nodes and what something waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from tickwork.core.api_key import ApiKey
from tickwork.core.queue.wait_estimate import WaitEstimate
from tickwork.core.workflow.model import StepKind, StepState


class StepView(Struct, frozen=True, kw_only=True):
    """A step of a run."""

    key: str
    kind: StepKind
    state: StepState
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    output: Any
    error: str | None


class EventView(Struct, frozen=True, kw_only=True):
    """An event of a run. `consumed_by` is the step that received it."""

    type: str
    id: str | None
    data: Any
    sent_at: datetime
    consumed_by: str | None


class RestartPlan(Struct, frozen=True, kw_only=True):
    """What a restart does: the steps that run again, those of them whose effects happen again, and
    those whose results are kept."""

    runs: tuple[str, ...]
    repeats: tuple[str, ...]
    keeps: tuple[str, ...]


class RunView(Struct, frozen=True, kw_only=True):
    """A run. While it runs, `status` is also `diverged`, `paused`, `pausing` until its running step
    has ended, and `cancelling` until a worker has ended it. `waits_for` says what a run waits for,
    and `wake_at` until when. `steps_next` is the `steps_from` of the steps after these, if there
    are more."""

    id: str
    workflow: str
    version: str | None
    status: str
    params: Any
    result: Any
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    deadline_at: datetime | None
    generation: int
    divergence: str | None
    correlation_id: str | None
    parent_id: str | None = None
    parent_step: str | None = None
    waits_for: tuple[str, ...] = ()
    wake_at: datetime | None = None
    steps: tuple[StepView, ...] = ()
    steps_total: int = 0
    steps_next: int | None = None
    events: tuple[EventView, ...] = ()
    events_next: int | None = None
    restart: RestartPlan | None = None


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The result of a method; `done` is False if it has not run yet."""

    done: bool
    result: Any = None


class StorageEntry(Struct, frozen=True):
    """A key and its value."""

    name: str
    value: Any


class AlarmBody(Struct, frozen=True):
    """When the alarm is set to fire."""

    at: datetime


class Wait(Struct, frozen=True, kw_only=True):
    """Why something waits: a code for programs, and sentences for people. `answer` says what it
    waits for, `next` what happens then."""

    kind: str
    id: str
    code: str
    answer: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    correlation_id: str | None = None
    details: tuple[str, ...] = ()
    estimate: WaitEstimate | None = None


class CreatedKey(ApiKey, frozen=True, kw_only=True):
    """A key with its text, `tw_…`, which is not shown again."""

    token: str

    def __repr__(self) -> str:
        return f"CreatedKey(id={self.id!r}, name={self.name!r}, token='***')"


class Node(Struct, frozen=True):
    """A process, the shards it leads, and how many messages it has claimed."""

    id: str
    name: str
    roles: tuple[str, ...]
    started_at: datetime
    expires_at: datetime
    is_alive: bool
    shards: tuple[int, ...]
    claims: int = 0
    host: str = ""
    pid: int | None = None


class ClusterView(Struct, frozen=True):
    """The nodes, and the shards without a leader; `now` is the database's time, and everything is
    paused since `paused_at`. Every schedule that is not exact has a fire window of at least
    `widened_seconds`."""

    now: datetime
    schema_version: int
    epoch: int
    nodes: tuple[Node, ...]
    shards_without_leader: tuple[int, ...]
    paused_at: datetime | None = None
    widened_seconds: int = 0


class MessageType(Struct, frozen=True, kw_only=True):
    """A type of messages, or a pattern such as `content.*` that somebody subscribes to. `messages`
    are the numbers of the last hour by counter."""

    type: str
    sources: tuple[str, ...]
    queues: tuple[str, ...]
    messages: dict[str, int]
    subscribers: tuple[str, ...]
    endpoints: tuple[str, ...]


class HealthAnswer(Struct, frozen=True):
    """The server is running."""

    status: str
    version: str


class Readiness(Struct, frozen=True):
    """The server can reach its database. `missing` names the roles that no live process has."""

    status: str
    missing: tuple[str, ...] = ()


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """Something that happened: a hint to read again what it names. Pass `id` as `after` to go on
    behind it."""

    id: str | None
    type: str
    data: dict[str, Any]
