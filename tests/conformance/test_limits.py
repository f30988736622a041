"""Invalid input is refused with an error that names the field and its limit; nothing is stored."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    claim,
    counts,
    letters,
    make_queue,
    new,
    news,
    pull_one,
    retry,
    send,
    sending,
    settle,
)
from tickwork.core.limits import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BODY_BYTES_MAX
from tickwork.core.message.batch import ItemStatus, NewBatch
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    Claim,
    Counts,
    Ending,
    Fate,
    QueueSettings,
    Scope,
    Settlement,
    Tenant,
)
from tickwork.core.options.declared import fields_of
from tickwork.core.options.message import SendOptions
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

YEAR_SECONDS = 365 * 86_400
NAN, INFINITE = float("nan"), float("inf")
NUL, SURROGATE = "a\0b", "a\ud800b"

BAD_NUMBERS: dict[str, tuple[list[float], str]] = {
    "delay_seconds": ([-1, -0.001, YEAR_SECONDS + 1, INFINITE, NAN], str(YEAR_SECONDS)),
    "priority": ([-1, 10], "0 to 9"),
    "hops": ([-1, 33], "32"),
    "expires_after_seconds": ([0, -1, YEAR_SECONDS + 1, NAN], str(YEAR_SECONDS)),
    "run": ([-1, 2**31], str(2**31 - 1)),
}
BAD_TEXTS = {
    "key": 120,
    "event_id": 512,
    "type": 512,
    "source": 512,
    "correlation_id": 512,
    "causation_id": 512,
}
BAD_MESSAGES: list[tuple[str, Any, str]] = [
    ("body", b"x" * 128_001, "128000"),
    ("slot", datetime(2026, 1, 5), "time zone"),  # noqa: DTZ001  that is what is wrong with it
    *((field, value, limit) for field, (bad, limit) in BAD_NUMBERS.items() for value in bad),
    *((field, "x" * (limit + 1), str(limit)) for field, limit in BAD_TEXTS.items()),
    *((field, "", str(limit)) for field, limit in BAD_TEXTS.items()),
    *((field, NUL, "NUL") for field in BAD_TEXTS),
    *((field, SURROGATE, "surrogate") for field in BAD_TEXTS),
    *((field, 5, "must be a text, not 5") for field in BAD_TEXTS),
    ("delay_seconds", "5", "must be a number of seconds, not '5'"),
    ("delay_seconds", None, "must be a number of seconds"),
    ("expires_after_seconds", "", "must be a number of seconds"),
]
GOOD_MESSAGES: list[dict[str, Any]] = [
    {"body": b"x" * 128_000},
    {"body": b""},
    {"delay_seconds": YEAR_SECONDS, "expires_after_seconds": YEAR_SECONDS},
    {"priority": 0, "hops": 32, "run": 2**31 - 1},
    {"priority": 9, "expires_after_seconds": 0.001},
    {field: "x" * limit for field, limit in BAD_TEXTS.items()},
    dict.fromkeys(BAD_TEXTS, "🜨ü"),
]


def faults_of(error: pytest.ExceptionInfo[InvalidInput]) -> dict[str, str]:
    return {fault.field: fault.message for fault in error.value.errors}


async def test_an_invalid_message_is_refused_by_every_way_of_sending(store: Store) -> None:
    await make_queue(store)
    await send(store)
    held = await pull_one(store, lease_seconds=3_600)
    ways: dict[str, Callable[[Any], Awaitable[Any]]] = {
        "": lambda bad: store.messages.send(DEFAULT, WORK, bad),
        "messages[0].": lambda bad: store.messages.send_batch(DEFAULT, WORK, [bad]),
        "messages[1].": lambda bad: store.messages.send_batch(DEFAULT, WORK, [new(), bad]),
        "endings[0].sends[1].": lambda bad: settle(
            store, retry(held, sends=(sending(WORK), sending(WORK, **bad)))
        ),
    }
    for field, value, limit in BAD_MESSAGES:
        for prefix, way in ways.items():
            bad: Any = {field: value} if "sends" in prefix else new(**{field: value})
            with pytest.raises(InvalidInput) as raised:
                await way(bad)
            faults = faults_of(raised)
            assert [*faults] == [prefix + field], (field, value)
            assert limit in faults[prefix + field]
        with pytest.raises(InvalidInput, match=field):
            await store.messages.send_bulk(DEFAULT, WORK, [new(), new(**{field: value})])
    assert await counts(store) == Counts(claimed=1)


async def test_a_message_at_its_limits_is_stored(store: Store) -> None:
    await make_queue(store)
    for fields in GOOD_MESSAGES:
        message = await send(store, **fields)
        stored = await store.messages.get(DEFAULT, WORK, message.id)
        for field, value in fields.items():
            if hasattr(stored, field):
                assert getattr(stored, field) == value


def test_every_text_of_a_message_has_a_length() -> None:
    texts = {name for name, field in fields_of(SendOptions).items() if field.kind is str}
    assert texts == {*BAD_TEXTS}


async def test_an_error_names_all_invalid_fields(store: Store) -> None:
    await make_queue(store)
    with pytest.raises(InvalidInput) as raised:
        await send(store, priority=10, hops=-1, key="")
    assert {*faults_of(raised)} == {"priority", "hops", "key"}


async def test_a_batch_has_a_maximum_of_messages(store: Store) -> None:
    await make_queue(store)
    with pytest.raises(InvalidInput) as raised:
        await store.messages.send_batch(DEFAULT, WORK, news(BATCH_MESSAGES_MAX + 1))
    assert f"at most {BATCH_MESSAGES_MAX}" in faults_of(raised)["messages"]
    assert await counts(store) == Counts()


async def test_a_batch_has_a_maximum_of_bytes(store: Store) -> None:
    await make_queue(store)
    many = [new(body=b"x" * BODY_BYTES_MAX) for _ in range(BATCH_BYTES_MAX // BODY_BYTES_MAX)]
    with pytest.raises(InvalidInput) as raised:
        await store.messages.send_batch(DEFAULT, WORK, [*many, new(body=b"x")])
    assert f"at most {BATCH_BYTES_MAX}" in faults_of(raised)["messages"]
    assert await counts(store) == Counts()
    await store.messages.send_batch(DEFAULT, WORK, many)
    assert await counts(store) == Counts(ready=len(many))


BAD_CLAIMS: list[tuple[str, Any, str]] = [
    *(("limit", limit, "1000") for limit in (0, -1, 1_001)),
    *(("lease_seconds", lease, "43200") for lease in (-1, 43_201, NAN)),
]


async def test_a_claim_limit_has_a_minimum_and_a_maximum(store: Store) -> None:
    await make_queue(store)
    await send(store)
    for field, value, limit in BAD_CLAIMS:
        with pytest.raises(InvalidInput) as raised:
            await claim(store, new_id(), **{"lease_seconds": 30} | {field: value})
        assert limit in faults_of(raised)[field]
    assert await counts(store) == Counts(ready=1)


async def test_a_lease_is_not_extended_beyond_its_limit(store: Store) -> None:
    await make_queue(store)
    await send(store)
    held = (await pull_one(store)).current_claim
    for lease_seconds in (-1, 43_201, NAN):
        with pytest.raises(InvalidInput) as raised:
            await store.messages.extend(DEFAULT, held, lease_seconds)
        assert "43200" in faults_of(raised)["lease_seconds"]


BAD_ENDINGS: list[tuple[str, Any, str]] = [
    *(("delay_seconds", delay, str(YEAR_SECONDS)) for delay in (-1, YEAR_SECONDS + 1, NAN)),
    ("error", NUL, "NUL"),
    ("error", SURROGATE, "surrogate"),
    ("error", "x" * 10_001, "10000"),
    ("reason", NUL, "NUL"),
    ("reason", "x" * 121, "120"),
]


async def test_an_invalid_ending_refuses_its_whole_settlement(store: Store) -> None:
    await make_queue(store)
    for _ in range(2):
        await send(store)
    (one, two) = await claim(store, new_id(), lease_seconds=30)
    fine = Ending(claim=one.current_claim, fate=Fate.ACK)
    for field, value, limit in BAD_ENDINGS:
        for fate in (Fate.RETRY, Fate.DEAD):
            both = Settlement((fine, Ending(claim=two.current_claim, fate=fate, **{field: value})))
            for settling in (
                store.messages.settle(DEFAULT, both),
                store.messages.settle_jointly(DEFAULT, both, lambda _: None),
            ):
                with pytest.raises(InvalidInput) as raised:
                    await settling
                assert limit in faults_of(raised)[f"endings[1].{field}"]
    assert await counts(store) == Counts(claimed=2)
    assert await letters(store) == ()


async def test_an_impossible_claim_is_refused(store: Store) -> None:
    await make_queue(store)
    numbers = [Claim("default", new_id(), claim, new_id()) for claim in (-1, 2**63, 2**200)]
    tenants = [Claim(tenant, new_id(), 1, new_id()) for tenant in (NUL, SURROGATE, "")]
    for held in numbers + tenants:
        result = await settle(store, Ending(claim=held, fate=Fate.ACK), scope=SYSTEM)
        assert result.refused == (held,)
        assert not await store.messages.extend(SYSTEM, held, 30)


BAD_SETTINGS: list[tuple[str, Any, str]] = [
    *(("max_batch_size", size, "100") for size in (0, 101)),
    *(("max_batch_timeout", timeout, "60") for timeout in (-1, 61, NAN)),
    *(("max_retries", retries, "100") for retries in (-1, 101)),
    ("dead_letter_queue", WORK, "another"),
    ("dead_letter_queue", "", "120"),
    ("dead_letter_queue", NUL, "NUL"),
    ("retention_seconds", 59, "60"),
    ("retention_seconds", 14 * 86_400 + 1, str(14 * 86_400)),
    *(("visibility_timeout_seconds", timeout, "43200") for timeout in (-1, 43_201)),
    *(("timeout_seconds", timeout, "86400") for timeout in (0, 86_401)),
    *(("tenant_claimed_max", cap, "1e+06") for cap in (0, -1, 1_000_001)),
    *(("rate_per_second", rate, "0.001") for rate in (0, -1, 0.0009, 1_000_001, INFINITE, NAN)),
    *(("backlog_bytes_max", limit, "128000") for limit in (0, 127_999, 10**15 + 1)),
]
GOOD_SETTINGS: list[dict[str, Any]] = [
    {"tenant_claimed_max": 1, "rate_per_second": 0.001, "backlog_bytes_max": 128_000},
    {"tenant_claimed_max": 10**6, "rate_per_second": 1e6, "backlog_bytes_max": 10**15},
    {"dead_letter_queue": "x" * 120},
]


async def test_invalid_settings_create_no_queue(store: Store) -> None:
    for field, value, limit in BAD_SETTINGS:
        with pytest.raises(InvalidInput) as raised:
            await make_queue(store, **{field: value})
        assert limit in faults_of(raised)[field]
    assert await store.queues.list(DEFAULT) == ()


async def test_settings_at_their_limits_are_kept(store: Store) -> None:
    for number, settings in enumerate(GOOD_SETTINGS):
        await make_queue(store, f"queue-{number}", **settings)
        queue = await store.queues.get(DEFAULT, f"queue-{number}")
        assert queue.settings == QueueSettings(**settings)
        sent = await send(store, queue=queue.name)
        assert (await pull_one(store, queue=queue.name)).id == sent.id


BAD_NAMES = ["", "x" * 121, NUL, SURROGATE]


async def test_an_invalid_name_creates_no_queue_and_finds_none(store: Store) -> None:
    for name in BAD_NAMES:
        with pytest.raises(InvalidInput) as raised:
            await store.queues.put(DEFAULT, name, QueueSettings())
        assert [*faults_of(raised)] == ["name"]
        for act in (
            store.queues.get(DEFAULT, name),
            store.messages.send(DEFAULT, name, new()),
            store.messages.peek(DEFAULT, name, ALL),
            claim(store, new_id(), queue=name, lease_seconds=30),
        ):
            with pytest.raises(NotFound):
                await act
    assert await store.queues.list(DEFAULT) == ()


async def test_an_invalid_name_creates_no_tenant_and_finds_none(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for name in BAD_NAMES:
        with pytest.raises(InvalidInput) as raised:
            await store.tenants.put(SYSTEM, Tenant(id=name))
        assert [*faults_of(raised)] == ["id"]
        for act in (
            store.tenants.get(SYSTEM, name),
            store.queues.put(Scope(name), "own", QueueSettings()),
            store.queues.get(Scope(name), WORK),
            store.messages.send(Scope(name), WORK, new()),
        ):
            with pytest.raises(NotFound):
                await act


async def test_a_tenants_weight_has_its_limits(store: Store) -> None:
    for weight in (0, -1, 1_001):
        with pytest.raises(InvalidInput) as raised:
            await store.tenants.put(SYSTEM, Tenant(id="acme", weight=weight))
        assert "1000" in faults_of(raised)["weight"]


async def test_page_limits_have_a_minimum_and_a_maximum(store: Store) -> None:
    await make_queue(store)
    for limit in (0, -1, 10_001):
        for look in (
            store.messages.peek(DEFAULT, WORK, limit),
            store.dead_letters.groups(DEFAULT, WORK, limit),
            store.batches.list(DEFAULT, limit),
            store.batches.items(DEFAULT, new_id(), ItemStatus.PENDING, limit),
            store.firings.list(DEFAULT, new_id(), limit),
            store.pruner.prune(SYSTEM, limit),
            store.reaper.reap(SYSTEM, limit),
        ):
            with pytest.raises(InvalidInput) as raised:
                await look
            assert "10000" in faults_of(raised)["limit"]


async def test_a_batch_needs_valid_queue_names(store: Store) -> None:
    await make_queue(store)
    for name in BAD_NAMES:
        for field, batch in (
            ("queue", NewBatch(id=new_id(), queue=name)),
            ("completion_queue", NewBatch(id=new_id(), queue=WORK, completion_queue=name)),
        ):
            with pytest.raises(InvalidInput) as raised:
                await store.batches.create(DEFAULT, batch, [])
            assert [*faults_of(raised)] == [field]
    assert await store.batches.list(DEFAULT, ALL) == ()


async def test_only_the_system_may_use_nodes_and_the_reaper(store: Store) -> None:
    node_id = new_id()
    for act in (
        store.nodes.join(DEFAULT, node_id, name="n", roles=["worker"], ttl_seconds=15),
        store.nodes.heartbeat(DEFAULT, node_id, 15),
        store.nodes.leave(DEFAULT, node_id),
        store.nodes.give_back_unknown(DEFAULT, node_id, []),
        store.nodes.list(DEFAULT),
        store.reaper.reap(DEFAULT, ALL),
    ):
        with pytest.raises(InvalidInput, match="system") as raised:
            await act
        assert [*faults_of(raised)] == ["scope"]


async def test_a_nodes_lease_has_its_limits(store: Store) -> None:
    node_id = new_id()
    for ttl_seconds in (0, -1, 86_401, NAN):
        with pytest.raises(InvalidInput) as raised:
            await store.nodes.join(
                SYSTEM, node_id, name="n", roles=["worker"], ttl_seconds=ttl_seconds
            )
        assert "86400" in faults_of(raised)["ttl_seconds"]
    assert await store.nodes.list(SYSTEM) == ()
    await store.nodes.join(SYSTEM, node_id, name="n", roles=["worker"], ttl_seconds=15)
    for ttl_seconds in (0, -1, 86_401, NAN):
        with pytest.raises(InvalidInput):
            await store.nodes.heartbeat(SYSTEM, node_id, ttl_seconds)


async def test_a_nodes_name_and_roles_are_validated(store: Store) -> None:
    for text in BAD_NAMES:
        with pytest.raises(InvalidInput, match="name"):
            await store.nodes.join(SYSTEM, new_id(), name=text, roles=["worker"], ttl_seconds=15)
        with pytest.raises(InvalidInput, match=r"roles\[1\]"):
            await store.nodes.join(SYSTEM, new_id(), name="n", roles=["api", text], ttl_seconds=15)
    assert await store.nodes.list(SYSTEM) == ()
