# Written by `python -m tests.kit.sync_stub` from the signatures of the app.

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Generic, Unpack, overload

from tickwork.app.message import NamedQueue
from tickwork.app.services import AsgiApp
from tickwork.core import when
from tickwork.core.answers.batch import BatchAnswer, ItemAnswer
from tickwork.core.answers.cluster import ClusterView, Node
from tickwork.core.answers.dead_letter import DeadLetter, ReplaySummary
from tickwork.core.answers.delivery import DeliveryAnswer, DeliveryHistory
from tickwork.core.answers.endpoint import CreatedEndpoint, EndpointAnswer
from tickwork.core.answers.ids import GivenId, Id
from tickwork.core.answers.message import StoredMessage
from tickwork.core.answers.operation import OperationView
from tickwork.core.answers.performance import PerformanceAnswer
from tickwork.core.answers.queue import QueueAnswer, QueueView, SubscriptionBody, Usage
from tickwork.core.answers.run import RestartPlan, RunView
from tickwork.core.answers.schedule import (
    CalendarAnswer,
    ChangedCalendar,
    CompletedFiring,
    FiringAnswer,
    ScheduleAnswer,
    UpcomingFire,
    Why,
)
from tickwork.core.answers.search import Findings
from tickwork.core.answers.wait import Wait
from tickwork.core.api_key import ApiKey, CreatedKey
from tickwork.core.audit import AuditRecord
from tickwork.core.delivery.alert import AlertTarget
from tickwork.core.delivery.endpoint import Attempt, DeliveryStatus, EndpointStats, Published
from tickwork.core.entity.model import CountedType, EntityRecord
from tickwork.core.health import HealthReport
from tickwork.core.http.message import HttpResponse
from tickwork.core.message.batch import ItemStatus
from tickwork.core.message.body import Outgoing
from tickwork.core.message.dead_letter import DeadGroup, MatchingDeadLetters
from tickwork.core.message.message_list import ShownState
from tickwork.core.model import Tenant
from tickwork.core.options import Given, RuleFields, ScheduleFields, SchedulePatch, StartOptions
from tickwork.core.options.endpoint import EndpointFields, EndpointOptions
from tickwork.core.options.message import GivenContentType, SendOptions
from tickwork.core.options.queue import QueueOptions
from tickwork.core.options.tenant import TenantLimits
from tickwork.core.queue.capacity import Capacity
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.core.queue.performance import Width
from tickwork.core.queue.stats import QueueStats
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.forecast import Forecast
from tickwork.core.schedule.model import ScheduleOrder, ScheduleStatus
from tickwork.core.topology import Topology
from tickwork.core.trace import Trace
from tickwork.core.usage import UsageWidth
from tickwork.entity.entity import Entity
from tickwork.facade.app import Tickwork
from tickwork.facade.entities import E
from tickwork.facade.queue import T
from tickwork.facade.schedules import Reference
from tickwork.facade.services import CallOptions
from tickwork.facade.workflows import P, R, R_co, Workflow
from tickwork.ops.schedules.views import Position

class SyncSchedules:
    def create(
        self, *, connection: object = ..., **fields: Unpack[ScheduleFields]
    ) -> ScheduleAnswer: ...
    def create_many(self, bodies: Sequence[ScheduleFields]) -> tuple[ScheduleAnswer, ...]: ...
    def create_bulk(
        self, bodies: Iterable[ScheduleFields], *, on_progress: Callable[[int], None] | None = ...
    ) -> int: ...
    def get(self, reference: Reference) -> ScheduleAnswer: ...
    def list(
        self,
        *,
        status: ScheduleStatus | str | None = ...,
        name_prefix: str | None = ...,
        metadata: Mapping[str, str | int | bool] | None = ...,
        owner: str | None = ...,
        calendar: str | None = ...,
        order: ScheduleOrder | str = ...,
        after: Reference | None = ...,
        limit: int = ...,
    ) -> tuple[ScheduleAnswer, ...]: ...
    def update(
        self, reference: Reference, *, connection: object = ..., **patch: Unpack[SchedulePatch]
    ) -> ScheduleAnswer: ...
    def pause(self, reference: Reference) -> ScheduleAnswer: ...
    def resume(self, reference: Reference) -> ScheduleAnswer: ...
    def delete(self, reference: Reference, *, connection: object = ...) -> ScheduleAnswer: ...
    def trigger(self, reference: Reference) -> ScheduleAnswer: ...
    def backfill(
        self,
        reference: Reference,
        *,
        since: datetime | str,
        until: datetime | str,
        force: bool = ...,
    ) -> tuple[datetime, ...]: ...
    def preview(
        self,
        *,
        limit: int | None = ...,
        since: datetime | str | None = ...,
        **fields: Unpack[RuleFields],
    ) -> when.Preview: ...
    def upcoming(
        self,
        reference: Reference | None = ...,
        *,
        since: datetime | str | None = ...,
        until: datetime | str | None = ...,
        owner: str | None = ...,
        limit: int = ...,
    ) -> tuple[UpcomingFire, ...]: ...
    def forecast(self, *, hours: int = ..., window_seconds: int | None = ...) -> Forecast: ...
    def firings(
        self,
        reference: Reference,
        *,
        limit: int = ...,
        status: FiringStatus | str | None = ...,
        before: Position | None = ...,
    ) -> tuple[FiringAnswer, ...]: ...
    def why(self, reference: Reference, at: datetime | str | None = ...) -> Why: ...

class SyncFirings:
    def complete(
        self, token: str, *, failed: bool = ..., error: str | None = ...
    ) -> CompletedFiring: ...

class SyncCalendars:
    def put(self, name: str, days: Iterable[date | str]) -> ChangedCalendar: ...
    def put_ics(self, name: str, text: str | bytes) -> ChangedCalendar: ...
    def get(self, name: str) -> CalendarAnswer: ...
    def list(self) -> tuple[CalendarAnswer, ...]: ...
    def delete(self, name: str) -> None: ...

class SyncQueues:
    def list(self, *, limit: int = ...) -> tuple[QueueAnswer, ...]: ...
    def get(self, name: str) -> QueueAnswer: ...
    def put(self, name: str, **settings: Unpack[QueueOptions]) -> QueueAnswer: ...
    def update(self, name: str, **changes: Unpack[QueueOptions]) -> QueueAnswer: ...
    def stats(self, name: str) -> QueueStats: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def purge(self, name: str) -> int: ...
    def delete(self, name: str) -> None: ...

class SyncMessages:
    def get(self, message_id: GivenId, *, queue: str | None = ...) -> StoredMessage: ...
    def list(
        self,
        queue: str,
        *,
        state: ShownState | str | None = ...,
        type: str | None = ...,
        key: str | None = ...,
        correlation_id: str | None = ...,
        older_than: float | None = ...,
        limit: int = ...,
    ) -> tuple[StoredMessage, ...]: ...
    def delete(self, queue: str, message_id: GivenId) -> None: ...
    def peek(self, queue: str, *, limit: int = ...) -> tuple[StoredMessage, ...]: ...

class SyncBatches:
    def get(self, batch_id: GivenId) -> BatchAnswer: ...
    def list(self, *, limit: int = ...) -> tuple[BatchAnswer, ...]: ...
    def items(
        self,
        batch_id: GivenId,
        status: ItemStatus | str,
        *,
        limit: int = ...,
        after: GivenId | None = ...,
    ) -> tuple[ItemAnswer, ...]: ...
    def cancel(self, batch_id: GivenId) -> BatchAnswer: ...

class SyncDeadLetters:
    def list(
        self,
        queue: str | None = ...,
        *,
        reason: str | None = ...,
        fingerprint: str | None = ...,
        type: str | None = ...,
        no_type: bool = ...,
        failed_before: datetime | str | None = ...,
        limit: int = ...,
        after: GivenId | None = ...,
    ) -> tuple[DeadLetter, ...]: ...
    def groups(self, queue: str, *, limit: int = ...) -> tuple[DeadGroup, ...]: ...
    def count(
        self,
        queue: str,
        *,
        reason: str | None = ...,
        fingerprint: str | None = ...,
        type: str | None = ...,
        no_type: bool = ...,
        failed_before: datetime | str | None = ...,
    ) -> MatchingDeadLetters: ...
    def get(self, dead_letter_id: GivenId) -> DeadLetter: ...
    def edit(
        self, dead_letter_id: GivenId, body: Any, *, content_type: GivenContentType = ...
    ) -> DeadLetter: ...
    def replay(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = ...,
        reason: str | None = ...,
        fingerprint: str | None = ...,
        type: str | None = ...,
        no_type: bool = ...,
        failed_before: datetime | str | None = ...,
        limit: int | None = ...,
        canary: int = ...,
        rate_per_second: float | None = ...,
        canary_timeout_seconds: float = ...,
        on_progress: Callable[[int, int], None] | None = ...,
    ) -> ReplaySummary: ...
    def discard(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = ...,
        reason: str | None = ...,
        fingerprint: str | None = ...,
        type: str | None = ...,
        no_type: bool = ...,
        failed_before: datetime | str | None = ...,
        limit: int | None = ...,
    ) -> int: ...

class SyncNodes:
    def list(self) -> tuple[Node, ...]: ...

class SyncWebhooks:
    def secret(self) -> str: ...
    def rotate_secret(self) -> str: ...

class SyncEvents:
    def publish(
        self,
        type: str,
        data: Any,
        *,
        key: str | None = ...,
        event_id: str | None = ...,
        owner: str | None = ...,
        connection: object = ...,
    ) -> Published: ...

class SyncEndpoints:
    def create(
        self, name: str, *, url: str, types: str | Sequence[str], **options: Unpack[EndpointOptions]
    ) -> CreatedEndpoint: ...
    def get(self, name: GivenId) -> EndpointAnswer: ...
    def list(self, *, limit: int = ..., after: str | None = ...) -> tuple[EndpointAnswer, ...]: ...
    def update(self, name: GivenId, **fields: Unpack[EndpointFields]) -> EndpointAnswer: ...
    def rotate_secret(self, name: GivenId) -> str: ...
    def public_keys(self, name: GivenId) -> tuple[str, ...]: ...
    def test(self, name: GivenId) -> Attempt: ...
    def disable(self, name: GivenId, reason: str = ...) -> EndpointAnswer: ...
    def enable(self, name: GivenId) -> EndpointAnswer: ...
    def delete(self, name: GivenId) -> int: ...
    def stats(self, name: GivenId, *, since: datetime | str | None = ...) -> EndpointStats: ...

class SyncDeliveries:
    def list(
        self,
        *,
        endpoint: GivenId | None = ...,
        status: DeliveryStatus | str | None = ...,
        undelivered: bool = ...,
        since: datetime | str | None = ...,
        until: datetime | str | None = ...,
        limit: int = ...,
        before: GivenId | None = ...,
    ) -> tuple[DeliveryAnswer, ...]: ...
    def get(self, delivery_id: GivenId) -> DeliveryHistory: ...
    def resend(self, delivery_id: GivenId) -> None: ...
    def recover(
        self,
        endpoint: GivenId,
        *,
        since: datetime | str,
        until: datetime | str | None = ...,
        rate_per_second: float = ...,
    ) -> int: ...

class SyncAlerts:
    def set(
        self,
        *,
        email: str | Sequence[str] | None = ...,
        webhook: str | None = ...,
        slack: str | None = ...,
        discord: str | None = ...,
    ) -> None: ...
    def get(self) -> AlertTarget | None: ...
    def clear(self) -> None: ...

class SyncLimits:
    def put(
        self,
        name: str,
        *,
        rate: float | None = ...,
        period_seconds: float = ...,
        concurrency: int | None = ...,
    ) -> NamedLimit: ...
    def get(self, name: str) -> NamedLimit: ...
    def list(self) -> tuple[NamedLimit, ...]: ...
    def delete(self, name: str) -> None: ...

class SyncWorkflows:
    @overload
    def start(
        self,
        workflow: Workflow[P, R],
        params: Given[P],
        *,
        id: str | None = ...,
        connection: object = ...,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self,
        workflow: Workflow[None, R],
        params: None = ...,
        *,
        id: str | None = ...,
        connection: object = ...,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[R]: ...
    @overload
    def start(
        self,
        workflow: str,
        params: Any = ...,
        *,
        id: str | None = ...,
        connection: object = ...,
        **options: Unpack[StartOptions],
    ) -> SyncRunHandle[Any]: ...
    @overload
    def start_many(
        self,
        workflow: Workflow[P, R],
        params: Iterable[Given[P]],
        *,
        ids: Iterable[str] | None = ...,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[R]]: ...
    @overload
    def start_many(
        self,
        workflow: str,
        params: Iterable[Any],
        *,
        ids: Iterable[str] | None = ...,
        **options: Unpack[StartOptions],
    ) -> list[SyncRunHandle[Any]]: ...
    @overload
    def send_event(
        self,
        workflow: Workflow[P, R],
        run_id: str,
        type: str,
        data: Any = ...,
        *,
        params: Given[P],
        id: str | None = ...,
    ) -> SyncRunHandle[R]: ...
    @overload
    def send_event(
        self,
        workflow: Workflow[None, R],
        run_id: str,
        type: str,
        data: Any = ...,
        *,
        params: None = ...,
        id: str | None = ...,
    ) -> SyncRunHandle[R]: ...
    @overload
    def send_event(
        self,
        workflow: str,
        run_id: str,
        type: str,
        data: Any = ...,
        *,
        params: Any = ...,
        id: str | None = ...,
    ) -> SyncRunHandle[Any]: ...
    def names(self) -> tuple[str, ...]: ...
    def get(self, run_id: str) -> SyncRunHandle[Any]: ...
    def list(
        self,
        workflow: Workflow[Any, Any] | str | None = ...,
        *,
        status: str | None = ...,
        parent: str | None = ...,
        limit: int = ...,
    ) -> tuple[RunView, ...]: ...

class SyncKeys:
    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        owner: str | None = ...,
        expires_at: datetime | None = ...,
    ) -> CreatedKey: ...
    def list(self) -> tuple[ApiKey, ...]: ...
    def get(self, key_id: str) -> ApiKey: ...
    def rotate(self, key_id: str, *, keep_seconds: float = ...) -> CreatedKey: ...
    def revoke(self, key_id: str) -> ApiKey: ...

class SyncSubscriptions:
    def list(self) -> tuple[SubscriptionBody, ...]: ...
    def create(self, types: str, queue: str) -> SubscriptionBody: ...
    def delete(self, types: str, queue: str) -> None: ...

class SyncAudit:
    def list(self, *, limit: int = ...) -> tuple[AuditRecord, ...]: ...

class SyncTenants:
    def create(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Tenant: ...
    def get(self, tenant_id: str) -> Tenant: ...
    def list(self) -> tuple[Tenant, ...]: ...
    def suspend(self, tenant_id: str) -> Tenant: ...
    def resume(self, tenant_id: str) -> Tenant: ...
    def set_limits(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Tenant: ...

class SyncEntities:
    @overload
    def register(self, cls: type[E], *, name: str | None = ...) -> type[E]: ...
    @overload
    def register(self, *, name: str | None = ...) -> Callable[[type[E]], type[E]]: ...
    def types(self, *, limit: int = ...) -> tuple[CountedType, ...]: ...
    def list(
        self, entity: str, *, prefix: str = ..., limit: int = ...
    ) -> tuple[EntityRecord, ...]: ...
    def get(self, entity: str, key: str) -> EntityRecord: ...
    def delete(self, entity: str, key: str) -> None: ...
    def storage(
        self, entity: str, key: str, *, prefix: str = ..., limit: int = ...
    ) -> dict[str, Any]: ...
    def get_value(self, entity: str, key: str, name: str) -> Any: ...
    def put_value(self, entity: str, key: str, name: str, value: Any) -> None: ...
    def delete_value(self, entity: str, key: str, name: str) -> None: ...
    def get_alarm(self, entity: str, key: str) -> datetime: ...
    def set_alarm(self, entity: str, key: str, at: datetime | str) -> None: ...
    def delete_alarm(self, entity: str, key: str) -> None: ...
    def call(
        self,
        entity: str,
        key: str,
        method: str,
        args: Sequence[Any] | Mapping[str, Any] = ...,
        *,
        idempotency_key: str | None = ...,
    ) -> Any: ...
    def why(self, entity: str, key: str) -> tuple[Wait, ...]: ...

class SyncOperations:
    def start(
        self,
        kind: str,
        selection: Mapping[str, Any],
        *,
        canary: int = ...,
        canary_timeout_seconds: float = ...,
        rate_per_second: float | None = ...,
    ) -> OperationView: ...
    def list(self, *, open_only: bool = ..., limit: int = ...) -> tuple[OperationView, ...]: ...
    def get(self, operation_id: GivenId) -> OperationView: ...
    def stop(self, operation_id: GivenId) -> OperationView: ...

class SyncQueue(NamedQueue[T]):
    def send(self, body: T, *, connection: object = ..., **options: Unpack[SendOptions]) -> Id: ...
    def send_batch(
        self,
        bodies: Sequence[T | Outgoing[T]],
        *,
        connection: object = ...,
        **options: Unpack[SendOptions],
    ) -> tuple[Id, ...]: ...
    def stats(self) -> QueueStats: ...

class SyncBatchHandle:
    @property
    def id(self) -> Id: ...
    def progress(self) -> BatchAnswer: ...
    def items(self, status: ItemStatus, limit: int = ...) -> tuple[ItemAnswer, ...]: ...
    def wait(self, timeout_seconds: float | None = ...) -> BatchAnswer: ...
    def cancel(self) -> BatchAnswer: ...

class SyncRunHandle(Generic[R_co]):
    id: str
    def status(self, *, steps_from: int = ..., steps_limit: int = ...) -> RunView: ...
    def result(self, *, timeout_seconds: float | None = ...) -> R_co: ...
    def send_event(
        self, type: str, data: Any = ..., *, id: str | None = ..., connection: object = ...
    ) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def cancel(self, *, compensate: bool = ...) -> None: ...
    def terminate(self) -> None: ...
    def restart(self, *, from_step: str | None = ..., dry_run: bool = ...) -> RestartPlan: ...
    def accept(self) -> None: ...

class SyncEntityHandle:
    @property
    def send(self) -> SyncSendHandle: ...
    def __getattr__(self, method: str) -> Callable[..., Any]: ...

class SyncSendHandle:
    def __getattr__(self, method: str) -> Callable[..., Id]: ...

class SyncService:
    @property
    def name(self) -> str: ...
    def get(self, path: str, **options: Unpack[CallOptions]) -> HttpResponse: ...
    def post(self, path: str, json: Any = ..., **options: Unpack[CallOptions]) -> HttpResponse: ...
    def put(self, path: str, json: Any = ..., **options: Unpack[CallOptions]) -> HttpResponse: ...
    def patch(self, path: str, json: Any = ..., **options: Unpack[CallOptions]) -> HttpResponse: ...
    def delete(self, path: str, **options: Unpack[CallOptions]) -> HttpResponse: ...
    def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = ...,
        body: bytes | None = ...,
        **options: Unpack[CallOptions],
    ) -> HttpResponse: ...

class SyncOwner:
    name: str
    schedules: SyncSchedules
    endpoints: SyncEndpoints
    events: SyncEvents

class SyncApp:
    def why(self, reference: str) -> Wait: ...
    def trace(self, reference: str) -> Trace: ...
    def search(self, text: str) -> Findings: ...
    def stats(self, *, limit: int | None = ...) -> tuple[QueueView, ...]: ...
    def status(self, *, checks: Collection[str] | None = ...) -> HealthReport: ...
    def usage(
        self,
        *,
        by: UsageWidth | str | None = ...,
        since: datetime | str | None = ...,
        until: datetime | str | None = ...,
        tenant: str | None = ...,
    ) -> Usage: ...
    def performance(
        self,
        *,
        by: Width | str = ...,
        since: datetime | str | None = ...,
        until: datetime | str | None = ...,
        queue: str | None = ...,
        type: str | None = ...,
    ) -> PerformanceAnswer: ...
    def capacity(self, *, hours: int = ...) -> Capacity: ...
    def topology(self) -> Topology: ...
    def pause_all(self) -> ClusterView: ...
    def resume_all(self) -> ClusterView: ...
    def widen_windows(self, seconds: int) -> ClusterView: ...
    def cluster(self) -> ClusterView: ...
    @overload
    def queue(
        self, name: str, *, payload: type[T], shared: bool = ..., **settings: Unpack[QueueOptions]
    ) -> SyncQueue[T]: ...
    @overload
    def queue(
        self,
        name: str,
        *,
        payload: object = ...,
        shared: bool = ...,
        **settings: Unpack[QueueOptions],
    ) -> SyncQueue[Any]: ...
    @overload
    def batch(
        self,
        queue: NamedQueue[T],
        items: Iterable[Given[T | Outgoing[T]]],
        *,
        completion_queue: NamedQueue[Any] | str | None = ...,
        batch_id: GivenId | None = ...,
        detached: bool = ...,
        connection: object = ...,
        **options: Unpack[SendOptions],
    ) -> SyncBatchHandle: ...
    @overload
    def batch(
        self,
        queue: str,
        items: Iterable[object],
        *,
        completion_queue: NamedQueue[Any] | str | None = ...,
        batch_id: GivenId | None = ...,
        detached: bool = ...,
        connection: object = ...,
        **options: Unpack[SendOptions],
    ) -> SyncBatchHandle: ...
    schedules: SyncSchedules
    firings: SyncFirings
    calendars: SyncCalendars
    queues: SyncQueues
    messages: SyncMessages
    batches: SyncBatches
    dead_letters: SyncDeadLetters
    operations: SyncOperations
    nodes: SyncNodes
    webhooks: SyncWebhooks
    events: SyncEvents
    endpoints: SyncEndpoints
    deliveries: SyncDeliveries
    alerts: SyncAlerts
    limits: SyncLimits
    workflows: SyncWorkflows
    keys: SyncKeys
    subscriptions: SyncSubscriptions
    audit: SyncAudit
    tenants: SyncTenants
    entities: SyncEntities
    @property
    def name(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    def entity(
        self, entity: type[Entity] | str, key: str, *, idempotency_key: str | None = ...
    ) -> SyncEntityHandle: ...
    def owner(self, name: str) -> SyncOwner: ...
    def service(
        self,
        name: str,
        target: AsgiApp | Tickwork | str | None = ...,
        *,
        headers: Mapping[str, str] | None = ...,
        timeout_seconds: float | None = ...,
    ) -> SyncService: ...
    def now(self) -> datetime: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
