"""The keyword arguments of the public calls, as types.

Each `TypedDict` is the one declaration of its fields: signatures unpack it (`**options:
Unpack[SendOptions]`), and validation, the API and the command line take names, types, ranges and
descriptions from it (`declared`). Whoever adds a field here adds it for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

from tickwork.core.options.endpoint import AnswerSeconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, time

    from tickwork.core.message.backoff import Backoff


T = TypeVar("T")


class _Deferred(Generic[T]):
    """Nobody makes one, and no argument is one."""


Given: TypeAlias = T | _Deferred[Callable[[], T]]
"""An argument whose type another argument decides: `send(queue: Queue[T], body: Given[T])`.

mypy infers `T` from all arguments at once and would refuse a literal that fits only as a `T`, such
as a dict for a `TypedDict`. It looks at types with a callable last, when `T` is known.
"""


def names_of(options: Any) -> frozenset[str]:
    """The names that a `TypedDict` declares."""
    names: frozenset[str] = options.__required_keys__ | options.__optional_keys__
    return names


OnConflict: TypeAlias = Literal["error", "use_existing", "restart_if_finished"]
"""What a start does if there is a run with its id."""


class BatchOptions(TypedDict, total=False):
    """How a handler of batches runs: `app.consumer`."""

    isolation: Literal["task", "thread"]
    max_concurrency: int | None


class HandlerOptions(TypedDict, total=False):
    """How a handler runs: `app.on`."""

    isolation: Literal["task", "thread", "process"]
    max_concurrency: int | None
    cpu_seconds: float
    memory_bytes: int


class RequestOptions(TypedDict, total=False):
    """How a handler of HTTP requests runs: `app.http`."""

    isolation: Literal["task", "thread", "process"]
    cpu_seconds: float
    memory_bytes: int


class StartOptions(TypedDict, total=False):
    """Options of runs of workflows: `workflows.start`, `workflows.start_many`."""

    on_conflict: OnConflict
    deadline_seconds: float | None
    correlation_id: str | None


class TimeOfDay(TypedDict):
    """A wall-clock time."""

    hour: int
    minute: int


class WeeklyTime(TypedDict):
    """A wall-clock time on days of the week; 0 is Sunday."""

    day_of_week: int | Sequence[int]
    hour: int
    minute: int


class _MonthlyDay(TypedDict):
    day: int | Literal["last"]
    hour: int
    minute: int


class MonthlyTime(_MonthlyDay, total=False):
    """A wall-clock time on a day of the month."""

    short_month: Literal["skip", "last_day"]


class DstPolicy(TypedDict, total=False):
    """What happens where the clock changes."""

    gap: Literal["run_after", "shift", "skip"]
    overlap: Literal["first", "last", "both"]


class MissedOptions(TypedDict, total=False):
    """What happens to slots that are late by more than the grace."""

    policy: Literal["fire_late", "fire_most_recent", "skip"]
    cap: int
    grace_seconds: int


class RetryOptions(TypedDict, total=False):
    """How often a firing is attempted, and after which delays."""

    max_attempts: int
    backoff: Backoff | Mapping[str, Any]


class _QueueName(TypedDict):
    queue: str


class QueueTargetFields(_QueueName, total=False):
    """The slots of a schedule become messages of a queue."""

    type: Literal["queue"]
    message_type: str


class _WebhookUrl(TypedDict):
    type: Literal["webhook"]
    url: str


class WebhookTargetFields(_WebhookUrl, AnswerSeconds, total=False):
    """Each slot is a request to a URL, with the payload as its body."""

    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"]
    headers: Mapping[str, str]
    completion: Literal["answer", "callback"]
    complete_within_seconds: int


class _EndpointName(TypedDict):
    type: Literal["webhook"]
    endpoint: str


class EndpointTargetFields(_EndpointName, total=False):
    """Each slot is a request to an endpoint of yours, by its name or id."""

    completion: Literal["answer", "callback"]
    complete_within_seconds: int


class _EmailTo(TypedDict):
    type: Literal["email"]
    to: str | Sequence[str]
    subject: str


class EmailTargetFields(_EmailTo, total=False):
    """Each slot is an email. Texts may contain `{{ payload.name }}`."""

    text: str
    html: str


class _ChatText(TypedDict):
    type: Literal["slack", "discord", "telegram"]
    url: str
    text: str


class ChatTargetFields(_ChatText, total=False):
    """Each slot is a chat message. Telegram needs a `chat_id`."""

    chat_id: str


class _Channels(TypedDict):
    type: Literal["channels"]
    channels: Sequence[WebhookTargetFields | EmailTargetFields | ChatTargetFields]


class ChannelsTargetFields(_Channels, total=False):
    """Each slot is delivered over several channels at once."""

    retry_failed_channels: bool


class EntityTargetFields(TypedDict):
    """The slots of a schedule call a method of an entity, with the payload as its argument."""

    type: Literal["entity"]
    entity: str
    key: str
    method: str


class WorkflowTargetFields(TypedDict):
    """Each slot of a schedule starts a run of a workflow, with the payload as its params."""

    type: Literal["workflow"]
    workflow: str


Target: TypeAlias = (
    QueueTargetFields
    | WebhookTargetFields
    | EndpointTargetFields
    | EmailTargetFields
    | ChatTargetFields
    | ChannelsTargetFields
    | EntityTargetFields
    | WorkflowTargetFields
)
"""Where the slots of a schedule go."""


class QueueResult(TypedDict):
    """A queue that gets the result of each firing."""

    queue: str


class EndpointResult(TypedDict):
    """An endpoint that gets the result of each firing."""

    endpoint: str


class WorkflowResult(TypedDict):
    """A workflow of which the result of each firing starts a run, with the result as its params."""

    workflow: str


ResultReceiver: TypeAlias = QueueResult | EndpointResult | WorkflowResult
"""Who gets the result of each firing."""


class RuleFields(TypedDict, total=False):
    """When a schedule fires: exactly one timing, and its policies. None is the same as left out;
    in an update it removes the field."""

    cron_expr: str | None
    interval_seconds: int | None
    interval_minutes: int | None
    daily_time: TimeOfDay | str | time | None
    weekly_time: WeeklyTime | str | None
    monthly_time: MonthlyTime | str | None
    once_at: datetime | str | None
    rrule: str | None
    interval_mode: Literal["fixed_rate", "fixed_delay"] | None
    timezone: str | None
    dst: DstPolicy | None
    missed: MissedOptions | None
    start_at: datetime | str | None
    end_at: datetime | str | None
    max_firings: int | None
    exclude: Sequence[date | str] | None
    calendar: str | None
    roll: Literal["skip", "next_day", "previous_day"] | None
    jitter_seconds: int | None
    fire_window_seconds: int | None


class FunctionFields(RuleFields, total=False):
    """The schedule of a function: `@app.schedule`."""

    payload: Any
    overlap: Literal["allow", "skip", "buffer_one", "buffer_all"] | None
    retry: RetryOptions | None
    on_dead: Literal["continue", "pause"] | None
    on_success: ResultReceiver | None
    on_failure: ResultReceiver | None
    priority: int | None
    expires_after_seconds: int | None
    metadata: Mapping[str, Any] | None


class SchedulePatch(FunctionFields, total=False):
    """Changes to a schedule: `app.schedules.update`."""

    target: Target
    target_url: str
    name: str | None
    delivery: Literal["at_least_once", "at_most_once"] | None
    """Whether a crash may repeat a delivery, or may leave its outcome unknown."""


class ScheduleFields(SchedulePatch, total=False):
    """A new schedule: `app.schedules.create`, `create_many` and `create_bulk`."""

    owner: str | None
    idempotency_key: str | None
