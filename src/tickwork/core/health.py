"""Decides what is wrong, and how bad it is, from facts about a tenant and its processes.

| check | reads |
|---|---|
| `pauses` | whether everything is paused, windows are widened, the tenant is suspended |
| `processes` | roles that no live process has, shards without a leader, silent processes |
| `quotas` | quotas of the tenant that are used up, or nearly |
| `queues` | paused and full ones, waiting messages, failed attempts, dead letters |
| `schedules` | parked ones, those that are late, those whose last slot failed |
| `endpoints` | those that are failing or disabled |
| `deliveries` | those that died in the last day |
| `runs` | those that diverged, and those that failed in the last day |

A check that was not made has None as its facts, and is not in `HealthReport.checked`: all is well
only if everything was checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.health_facts import (
    LISTED_MAX,
    DeliveryFacts,
    EndpointFacts,
    Facts,
    Pauses,
    Processes,
    QueueFacts,
    RunFacts,
    ScheduleFacts,
)
from tickwork.core.limits import HIDDEN_QUEUES, is_hidden
from tickwork.core.message.error_summary import summary
from tickwork.core.queue.stats import LATE_SECONDS
from tickwork.core.tenant_limits import QuotaUse

NAMED_MAX = 5
"""Maximum number of things of one kind that are reported one by one; more are one problem."""

NEARLY = 0.9
"""Share of a limit from which on it is reported as nearly used up."""

FULL = 0.99
"""Share of the bytes that may wait from which on a queue is reported as full."""

DIVERGED = "diverged"
"""Status of a run whose code asks for other steps than are on record."""


class Check(StrEnum):
    """What was looked at."""

    PAUSES = "pauses"
    PROCESSES = "processes"
    QUOTAS = "quotas"
    QUEUES = "queues"
    SCHEDULES = "schedules"
    ENDPOINTS = "endpoints"
    DELIVERIES = "deliveries"
    RUNS = "runs"


class Severity(StrEnum):
    """How bad a problem is: something does not happen, or it may soon not happen."""

    ERROR = "error"
    WARNING = "warning"


class HealthProblem(Struct, frozen=True, kw_only=True):
    """Something that is wrong: with what, since when, and what to do. `kind` and `name` say what it
    is about: a queue, a schedule (by id), an endpoint (by id), a workflow, or all of a kind. There
    may be more than `count` if `at_least`."""

    code: str
    severity: Severity
    what: str
    action: str
    kind: str
    name: str | None = None
    count: int = 1
    at_least: bool = False
    since: datetime | None = None


class HealthReport(Struct, frozen=True, kw_only=True):
    """What is wrong, worst first. `ok`: nothing is wrong with what was checked."""

    ok: bool
    now: datetime
    checked: tuple[Check, ...]
    problems: tuple[HealthProblem, ...]


_ROLES = {
    "scheduler": "No process has the role scheduler: schedules do not fire.",
    "worker": "No process has the role worker: messages are not handled, nothing is delivered.",
}

_WORST_FIRST = (
    "cluster_paused", "tenant_suspended", "node_silent", "no_scheduler", "no_worker",
    "shards_without_leader", "quota_reached", "queue_full",
    "no_consumer", "run_diverged", "schedule_parked", "schedule_dead", "schedule_paused",
    "endpoint_disabled", "run_failed", "dead_letters", "delivery_dead",
    "schedule_late", "queue_late", "endpoint_failing", "schedule_failing", "queue_failing",
    "quota_near", "queue_nearly_full", "queue_paused", "windows_widened", "queues_not_read",
)  # fmt: skip
"""Codes of problems: errors, and then warnings."""

_WARNINGS = frozenset(_WORST_FIRST[_WORST_FIRST.index("schedule_late") :])


def judge(facts: Facts) -> HealthReport:
    """What is wrong according to these facts, worst first; then oldest first."""
    problems = sorted(_problems(facts), key=lambda problem: _rank(problem, facts.now))
    checked = tuple(check for check in Check if getattr(facts, check) is not None)
    return HealthReport(ok=not problems, now=facts.now, checked=checked, problems=tuple(problems))


def _rank(problem: HealthProblem, now: datetime) -> tuple[int, datetime, str]:
    return _WORST_FIRST.index(problem.code), problem.since or now, problem.name or ""


def _problem(
    code: str,
    what: str,
    action: str,
    kind: str,
    name: str | None = None,
    *,
    count: int = 1,
    at_least: bool = False,
    since: datetime | None = None,
) -> HealthProblem:
    return HealthProblem(
        code=code,
        severity=Severity.WARNING if code in _WARNINGS else Severity.ERROR,
        what=what,
        action=action,
        kind=kind,
        name=name,
        count=count,
        at_least=at_least,
        since=since,
    )


def _problems(facts: Facts) -> Iterator[HealthProblem]:
    pauses = facts.pauses or Pauses()
    is_stopped = pauses.paused_at is not None or pauses.suspended_tenant is not None
    yield from _of_pauses(pauses)
    yield from _of_processes(facts.processes or Processes())
    for quota in facts.quotas or ():
        yield from _of_quota(facts.tenant, quota)
    for queue in facts.queues or ():
        yield from _of_queue(queue, facts.now, is_stopped=is_stopped)
    if facts.has_more_queues:
        read = len(facts.queues or ())
        yield _problem(
            "queues_not_read",
            f"Only the first {read} queues were looked at.",
            "Look at the list of queues.",
            "queues",
        )
    yield from _of_schedules(facts.schedules or (), facts.late_schedules)
    yield from _of_endpoints(facts.endpoints or ())
    yield from _of_deliveries(facts.deliveries or DeliveryFacts())
    yield from _of_runs(facts.runs or ())


def _of_pauses(pauses: Pauses) -> Iterator[HealthProblem]:
    if pauses.paused_at is not None:
        yield _problem(
            "cluster_paused",
            "Everything is paused: no message of any tenant is handled.",
            "Resume: tickwork cluster resume.",
            "cluster",
            since=pauses.paused_at,
        )
    if pauses.suspended_tenant is not None:
        yield _problem(
            "tenant_suspended",
            f"Tenant {pauses.suspended_tenant} is suspended: none of its messages is handled.",
            f"Resume it: tickwork tenants resume {pauses.suspended_tenant}.",
            "tenant",
            pauses.suspended_tenant,
        )
    if pauses.widened_seconds:
        yield _problem(
            "windows_widened",
            f"Fire windows are widened: slots come up to {pauses.widened_seconds} seconds late.",
            "End it: tickwork cluster narrow.",
            "cluster",
        )


def _of_processes(processes: Processes) -> Iterator[HealthProblem]:
    for node in processes.silent_nodes:
        yield _problem(
            "node_silent",
            f"Process {node.name} does not answer, and nobody has taken over what it does.",
            "Restart it, or start another one; see the nodes: tickwork nodes.",
            "nodes",
            node.name,
            since=node.since,
        )
    for role in processes.missing_roles:
        start = f"Start one: tickwork run your.module:app --roles {role}."
        yield _problem(f"no_{role}", _ROLES[role], start, "cluster")
    shards = processes.shards_without_leader
    if shards and "scheduler" not in processes.missing_roles:
        yield _problem(
            "shards_without_leader",
            f"{_count(shards, 'shard')} without a leader: their schedules do not fire.",
            "Look at the nodes: tickwork nodes.",
            "cluster",
            count=shards,
        )


_QUOTAS = {
    "backlog_max": ("waiting message", "sends are refused until some are handled"),
    "emails_per_day": ("email of today", "emails wait until tomorrow"),
    "schedules_max": ("schedule", "no other can be created"),
}


def _of_quota(tenant: str, quota: QuotaUse) -> Iterator[HealthProblem]:
    if quota.most <= 0 or quota.used < quota.most * NEARLY:
        return
    noun, follows = _QUOTAS[quota.name]
    nouns = noun.replace("email ", "emails ") if "email" in noun else f"{noun}s"
    has = f"Tenant {tenant} has {quota.used:,} of the {quota.most:,} {nouns} that it may have"
    is_used_up = quota.used >= quota.most
    yield _problem(
        "quota_reached" if is_used_up else "quota_near",
        f"{has}: {follows}." if is_used_up else f"{has}.",
        f"Raise it: tickwork tenants limits {tenant} --{quota.name.replace('_', '-')} N.",
        "tenant",
        tenant,
        count=quota.used,
    )


def _of_backlog(queue: QueueFacts) -> Iterator[HealthProblem]:
    if queue.bytes_max is None or queue.bytes < queue.bytes_max * NEARLY:
        return
    has = f"Queue {queue.name} has {queue.bytes:,} of the {queue.bytes_max:,} bytes that may wait"
    is_full = queue.bytes >= queue.bytes_max * FULL
    yield _problem(
        "queue_full" if is_full else "queue_nearly_full",
        f"{has}: sends that do not fit are refused." if is_full else f"{has}.",
        f"Add workers, or raise its backlog_bytes_max: tickwork queues update {queue.name}.",
        "queue",
        queue.name,
    )


def _of_queue(queue: QueueFacts, now: datetime, *, is_stopped: bool) -> Iterator[HealthProblem]:
    name = queue.name
    if queue.dead and name != ENDPOINTS_QUEUE:
        is_bounded = "dead" in queue.at_least
        yield _problem(
            "dead_letters",
            f"Queue {name} has {_count(queue.dead, 'dead letter', at_least=is_bounded)}.",
            f"Look at their errors, repair and replay them: tickwork dead groups {name}.",
            "dead_letters",
            name,
            count=queue.dead,
            at_least=is_bounded,
        )
    yield from _of_backlog(queue)
    age = queue.oldest_age_seconds or 0
    is_late = age > LATE_SECONDS and not queue.paused and not is_stopped
    if is_hidden(name):
        # What waits for its receiver is delayed, so it is never late.
        if is_late and not queue.claimed and not queue.taken:
            yield _waiting(queue, now - timedelta(seconds=age))
        return
    if queue.paused:
        yield _problem(
            "queue_paused",
            f"Queue {name} is paused.",
            f"Resume it: tickwork queues resume {name}.",
            "queue",
            name,
        )
    if queue.failed:
        attempts = _count(queue.failed, "attempt")
        yield _problem(
            "queue_failing",
            f"{attempts} at messages of queue {name} failed in the last 30 minutes.",
            f"Look at the last errors: tickwork messages list {name}.",
            "queue",
            name,
            count=queue.failed,
        )
    if is_late:
        yield _waiting(queue, now - timedelta(seconds=age))


def _waiting(queue: QueueFacts, since: datetime) -> HealthProblem:
    name, is_bounded = queue.name, "ready" in queue.at_least
    waits = "waits" if queue.ready == 1 and not is_bounded else "wait"
    messages = f"{_count(queue.ready, 'message', at_least=is_bounded)} of queue {name} {waits}"
    if queue.claimed or queue.taken:
        code, what = "queue_late", f"{messages}, the oldest for over a minute."
        action = "Add workers, or raise its concurrency."
    else:
        code, what = "no_consumer", f"{messages}, and nobody takes them."
        action = "Start what consumes it: tickwork run your.module:app, or a pull consumer."
        if name in HIDDEN_QUEUES:
            action = "Deliveries need a worker with the extra: pip install 'tickwork[delivery]'."
    return _problem(
        code, what, action, "queue", name, count=queue.ready, at_least=is_bounded, since=since
    )


def _of_schedules(
    troubled: Sequence[ScheduleFacts], late: Sequence[ScheduleFacts]
) -> Iterator[HealthProblem]:
    yield from _schedules(
        "schedule_parked",
        [schedule for schedule in troubled if schedule.is_parked and not schedule.is_over],
        ("is parked and does not fire", "are parked and do not fire"),
        "Repair its cause, then resume it: tickwork schedules resume",
    )
    yield from _schedules(
        "schedule_dead",
        [schedule for schedule in troubled if schedule.is_parked and schedule.is_over],
        ("failed at its last slot, and has no other", "failed at their last slot"),
        "Replay its dead letter, or run it again: tickwork schedules trigger",
    )
    yield from _schedules(
        "schedule_paused",
        [schedule for schedule in troubled if schedule.is_paused],
        ("paused itself after a slot failed", "paused themselves after a slot failed"),
        "Repair its cause, then resume it: tickwork schedules resume",
    )
    yield from _schedules(
        "schedule_failing",
        [schedule for schedule in troubled if not schedule.is_parked and not schedule.is_paused],
        ("failed at its last slot", "failed at their last slot"),
        "Ask why: tickwork why",
    )
    yield from _schedules(
        "schedule_late",
        late,
        ("is late by over a minute", "are late by over a minute"),
        "Ask why: tickwork why",
    )


def _schedules(
    code: str, schedules: Sequence[ScheduleFacts], says: tuple[str, str], action: str
) -> Iterator[HealthProblem]:
    if len(schedules) > NAMED_MAX:
        names = ", ".join(_name_of(schedule) for schedule in schedules[:NAMED_MAX])
        is_bounded = len(schedules) >= LISTED_MAX
        number = _count(len(schedules), "schedule", at_least=is_bounded)
        since = min(
            (schedule.since for schedule in schedules if schedule.since is not None), default=None
        )
        yield _problem(
            code,
            f"{number} {says[1]}: {names} …",
            f"{action} ID.",
            "schedules",
            count=len(schedules),
            at_least=is_bounded,
            since=since,
        )
        return
    for schedule in schedules:
        error = summary(schedule.error)
        public = public_id(Prefix.SCHEDULE, schedule.id)
        yield _problem(
            code,
            f"Schedule {_name_of(schedule)} {says[0]}{'' if error is None else f': {error}'}",
            f"{action} {public}.",
            "schedule",
            public,
            since=schedule.since,
        )


def _name_of(schedule: ScheduleFacts) -> str:
    return schedule.name or public_id(Prefix.SCHEDULE, schedule.id)


def _of_endpoints(endpoints: Sequence[EndpointFacts]) -> Iterator[HealthProblem]:
    disabled = [endpoint for endpoint in endpoints if endpoint.disabled_at is not None]
    failing = [endpoint for endpoint in endpoints if endpoint.disabled_at is None]
    for code, says, found in (
        ("endpoint_disabled", "disabled", disabled),
        ("endpoint_failing", "failing", failing),
    ):
        if len(found) > NAMED_MAX:
            names = ", ".join(endpoint.name for endpoint in found[:NAMED_MAX])
            is_bounded = len(found) >= LISTED_MAX
            yield _problem(
                code,
                f"{_count(len(found), 'endpoint', at_least=is_bounded)} are {says}: {names} …",
                "Look at their last errors: tickwork endpoints list.",
                "endpoints",
                count=len(found),
                at_least=is_bounded,
                since=min(_since(endpoint) for endpoint in found),
            )
            continue
        for endpoint in found:
            yield _of_endpoint(code, endpoint)


def _since(endpoint: EndpointFacts) -> datetime:
    since = endpoint.disabled_at or endpoint.failing_since
    assert since is not None
    return since


def _of_endpoint(code: str, endpoint: EndpointFacts) -> HealthProblem:
    what = f"Endpoint {endpoint.name} is failing: its deliveries wait and are tried again."
    action = f"Ask why: tickwork why {endpoint.name}."
    if endpoint.disabled_at is not None:
        reason = "" if endpoint.disabled_reason is None else f" ({endpoint.disabled_reason})"
        what = f"Endpoint {endpoint.name} is disabled{reason}: nothing is delivered to it."
        action = f"Repair its receiver, then enable it: tickwork endpoints enable {endpoint.name}."
    public = public_id(Prefix.ENDPOINT, endpoint.id)
    return _problem(code, what, action, "endpoint", public, since=_since(endpoint))


def _of_deliveries(deliveries: DeliveryFacts) -> Iterator[HealthProblem]:
    if deliveries.dead:
        is_bounded = deliveries.dead >= LISTED_MAX
        number = _count(deliveries.dead, "delivery", "deliveries", at_least=is_bounded)
        yield _problem(
            "delivery_dead",
            f"{number} died in the last 24 hours.",
            "Repair the receiver, then send them again: tickwork deliveries recover ENDPOINT.",
            "deliveries",
            count=deliveries.dead,
            at_least=is_bounded,
            since=deliveries.since,
        )


def _of_runs(troubled: Sequence[RunFacts]) -> Iterator[HealthProblem]:
    for status in {found.status for found in troubled}:
        alike = [found for found in troubled if found.status == status]
        is_bounded = sum(found.runs for found in alike) >= LISTED_MAX
        for found in alike:
            yield _of_workflow(found, is_bounded=is_bounded)


def _of_workflow(found: RunFacts, *, is_bounded: bool) -> HealthProblem:
    number = _count(found.runs, "run", at_least=is_bounded)
    code, what = "run_failed", f"{number} of workflow {found.workflow} failed in the last 24 hours."
    action = (
        f"Look at the errors, then restart: tickwork workflows list --workflow {found.workflow}."
    )
    if found.status == DIVERGED:
        code, what = (
            "run_diverged",
            f"{number} of workflow {found.workflow} diverged from the code.",
        )
        action = "Accept, restart or cancel: each run says where its record differs."
    return _problem(
        code,
        what,
        action,
        "workflow",
        found.workflow,
        count=found.runs,
        at_least=is_bounded,
        since=found.since,
    )


def _count(number: int, one: str, many: str | None = None, *, at_least: bool = False) -> str:
    if number == 1 and not at_least:
        return f"1 {one}"
    return f"{'at least ' if at_least else ''}{number:,} {many or one + 's'}"
