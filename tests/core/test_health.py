"""What is wrong, worst first: a pure function of facts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.messages import NOON
from tests.kit.soak import examples
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.health import NAMED_MAX, Check, Severity, judge
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
    SilentNode,
)
from tickwork.core.limits import HIDDEN_QUEUES
from tickwork.core.tenant_limits import QuotaUse

SINCE = NOON - timedelta(hours=1)
WELL = Facts(
    now=NOON,
    pauses=Pauses(),
    processes=Processes(),
    quotas=(QuotaUse("schedules_max", 1, 10), QuotaUse("emails_per_day", 0, 0)),
    queues=(QueueFacts(name="orders", ready=3, oldest_age_seconds=60.0),),
    schedules=(),
    endpoints=(),
    deliveries=DeliveryFacts(),
    runs=(),
)


def facts(**changed: Any) -> Facts:
    return Facts(**{name: getattr(WELL, name) for name in Facts.__struct_fields__} | changed)


def schedule(number: int = 1, *, name: str | None = None, **states: bool) -> ScheduleFacts:
    return ScheduleFacts(
        UUID(int=number), name or f"s{number}", states.pop("is_parked", False), SINCE,
        "no such zone", **states,
    )  # fmt: skip


def endpoint(number: int = 1, disabled_at: datetime | None = None) -> EndpointFacts:
    return EndpointFacts(UUID(int=number), f"e{number}", SINCE, disabled_at, "gone")


def queue(**fields: Any) -> tuple[QueueFacts, ...]:
    return (QueueFacts(name="orders", **fields),)


def test_all_is_well_if_everything_was_checked_and_nothing_is_wrong() -> None:
    health = judge(WELL)
    assert (health.ok, health.problems, health.checked) == (True, (), tuple(Check))


@pytest.mark.parametrize("check", Check)
def test_what_was_not_read_was_not_checked(check: Check) -> None:
    assert check not in judge(facts(**{check: None})).checked


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("cluster_paused", {"pauses": Pauses(paused_at=SINCE)}),
        ("tenant_suspended", {"pauses": Pauses(suspended_tenant="acme")}),
        ("windows_widened", {"pauses": Pauses(widened_seconds=90)}),
        ("no_scheduler", {"processes": Processes(missing_roles=("scheduler",))}),
        ("no_worker", {"processes": Processes(missing_roles=("worker",))}),
        ("shards_without_leader", {"processes": Processes(shards_without_leader=2)}),
        ("node_silent", {"processes": Processes(silent_nodes=(SilentNode("a", SINCE),))}),
        ("quota_reached", {"quotas": (QuotaUse("backlog_max", 10, 10),)}),
        ("quota_reached", {"quotas": (QuotaUse("emails_per_day", 11, 10),)}),
        ("quota_near", {"quotas": (QuotaUse("schedules_max", 9, 10),)}),
        ("queue_full", {"queues": queue(bytes=990, bytes_max=1_000)}),
        ("queue_nearly_full", {"queues": queue(bytes=900, bytes_max=1_000)}),
        ("dead_letters", {"queues": queue(dead=1)}),
        ("queue_paused", {"queues": queue(paused=True, ready=1, oldest_age_seconds=900.0)}),
        ("queue_failing", {"queues": queue(failed=2, taken=2)}),
        ("no_consumer", {"queues": queue(ready=1, oldest_age_seconds=61.0)}),
        ("queue_late", {"queues": queue(ready=9, oldest_age_seconds=61.0, claimed=1)}),
        ("queue_late", {"queues": queue(ready=9, oldest_age_seconds=61.0, taken=1)}),
        ("schedule_parked", {"schedules": (schedule(is_parked=True),)}),
        ("schedule_dead", {"schedules": (schedule(is_parked=True, is_over=True),)}),
        ("schedule_paused", {"schedules": (schedule(is_paused=True),)}),
        ("schedule_failing", {"schedules": (schedule(),)}),
        ("schedule_late", {"late_schedules": (schedule(),)}),
        ("endpoint_failing", {"endpoints": (endpoint(),)}),
        ("endpoint_disabled", {"endpoints": (endpoint(disabled_at=SINCE),)}),
        ("delivery_dead", {"deliveries": DeliveryFacts(3, SINCE)}),
        ("run_failed", {"runs": (RunFacts("trip", "failed", 2, SINCE),)}),
        ("run_diverged", {"runs": (RunFacts("trip", "diverged", 1, SINCE),)}),
        ("queues_not_read", {"has_more_queues": True}),
    ],
)
def test_each_trouble_is_one_problem_that_says_what_to_do(
    code: str, changed: dict[str, Any]
) -> None:
    health = judge(facts(**changed))
    (problem,) = health.problems
    assert (health.ok, problem.code) == (False, code)
    assert problem.action.endswith(".")
    assert problem.what


def test_the_deliveries_of_endpoints_are_counted_once() -> None:
    hidden = (QueueFacts(name=ENDPOINTS_QUEUE, dead=3),)
    assert judge(facts(queues=hidden, deliveries=DeliveryFacts(3, SINCE))).problems[0].code == (
        "delivery_dead"
    )
    assert judge(facts(queues=hidden)).ok


@pytest.mark.parametrize("name", sorted(HIDDEN_QUEUES))
def test_deliveries_that_no_worker_makes_are_reported(name: str) -> None:
    waits: dict[str, Any] = {"name": name, "ready": 9, "oldest_age_seconds": 61.0}
    (problem,) = judge(facts(queues=(QueueFacts(**waits),))).problems
    assert (problem.code, problem.name) == ("no_consumer", name)
    assert "tickwork[delivery]" in problem.action
    for state in ("claimed", "taken"):
        busy: dict[str, Any] = {state: 1}
        assert judge(facts(queues=(QueueFacts(**waits, **busy),))).ok


def test_while_everything_stands_still_waiting_messages_are_no_trouble_of_their_own() -> None:
    waiting = queue(ready=5, oldest_age_seconds=900.0)
    for pauses in (Pauses(paused_at=SINCE), Pauses(suspended_tenant="acme")):
        (problem,) = judge(facts(queues=waiting, pauses=pauses)).problems
        assert problem.severity is Severity.ERROR
    shards = Processes(missing_roles=("scheduler",), shards_without_leader=64)
    assert [shown_problem.code for shown_problem in judge(facts(processes=shards)).problems] == [
        "no_scheduler"
    ]


def test_few_are_named_one_by_one_and_many_together() -> None:
    for number, problems in ((NAMED_MAX, NAMED_MAX), (NAMED_MAX + 1, 1)):
        parked = tuple(schedule(index, is_parked=True) for index in range(number))
        disabled = tuple(endpoint(index, SINCE) for index in range(number))
        assert len(judge(facts(schedules=parked)).problems) == problems
        assert len(judge(facts(endpoints=disabled)).problems) == problems
    many = judge(facts(schedules=tuple(schedule(index) for index in range(LISTED_MAX)))).problems[0]
    assert (many.count, many.at_least, many.since) == (LISTED_MAX, True, SINCE)
    assert many.what.startswith("at least 100 schedules failed")


times = st.none() | st.integers(1, 10_000).map(lambda hours: NOON - timedelta(minutes=hours))
queues = st.builds(
    QueueFacts,
    name=st.sampled_from(["a", "b", ENDPOINTS_QUEUE]),
    paused=st.booleans(),
    ready=st.integers(0, 2),
    claimed=st.integers(0, 1),
    dead=st.integers(0, 2),
    at_least=st.sampled_from([(), ("dead",), ("ready",)]),
    oldest_age_seconds=st.none() | st.floats(0, 1_000),
    failed=st.integers(0, 2),
    taken=st.integers(0, 2),
    bytes=st.integers(0, 1_000),
    bytes_max=st.none() | st.just(1_000),
)
any_facts = st.builds(
    Facts,
    now=st.just(NOON),
    pauses=st.none()
    | st.builds(
        Pauses,
        paused_at=times,
        widened_seconds=st.integers(0, 2),
        suspended_tenant=st.sampled_from([None, "acme"]),
    ),
    processes=st.none()
    | st.builds(
        Processes,
        missing_roles=st.sampled_from([(), ("worker",), ("scheduler", "worker")]),
        shards_without_leader=st.integers(0, 2),
        silent_nodes=st.lists(st.just(SilentNode("a", SINCE)), max_size=2).map(tuple),
    ),
    quotas=st.none()
    | st.lists(
        st.builds(
            QuotaUse,
            st.sampled_from(["backlog_max", "schedules_max"]),
            st.integers(0, 12),
            st.just(10),
        ),
        max_size=2,
    ).map(tuple),
    queues=st.none() | st.lists(queues, max_size=3).map(tuple),
    schedules=st.none()
    | st.lists(st.booleans(), max_size=8).map(
        lambda parked: tuple(schedule(n, is_parked=is_parked) for n, is_parked in enumerate(parked))
    ),
    endpoints=st.none()
    | st.lists(times, max_size=8).map(
        lambda disabled: tuple(endpoint(n, disabled_at) for n, disabled_at in enumerate(disabled))
    ),
    deliveries=st.none() | st.builds(DeliveryFacts, dead=st.integers(0, 2), since=times),
    runs=st.none()
    | st.lists(
        st.builds(
            RunFacts,
            workflow=st.just("trip"),
            status=st.sampled_from(["failed", "diverged"]),
            runs=st.integers(1, 200),
            since=times,
        ),
        max_size=3,
    ).map(tuple),
)


@settings(max_examples=examples(300))
@given(any_facts)
@pytest.mark.randomised
def test_errors_come_before_warnings_and_of_a_kind_the_oldest_first(found: Facts) -> None:
    health = judge(found)
    severities = [problem.severity for problem in health.problems]
    assert severities == sorted(severities, key=[*Severity].index)
    assert health.ok == (not health.problems)
    for first, second in zip(health.problems, health.problems[1:], strict=False):
        if first.code == second.code:
            assert (first.since or NOON) <= (second.since or NOON)
    assert judge(found) == health
