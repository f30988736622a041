"""Callers who make too many requests, or guess keys, are refused; others are answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.kit.api import bearer, in_process, new_key
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.api import create_api
from tickwork.api.rates import DELAYED_MAX, RequestGate
from tickwork.clock import now
from tickwork.core import when
from tickwork.core.model import SYSTEM, Tenant
from tickwork.core.request_rate import CALLERS_MAX, Rates, RequestRates, network_of
from tickwork.errors import Unauthorized

WRONG = bearer("tw_0123456789_" + "0" * 64)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def monotonic() -> Clock:
    return Clock()


class Naps:
    """The seconds for which answers were delayed. They last until a test lets them end."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self.may_end.wait()


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(
    home: Home, monotonic: Clock, registry: CollectorRegistry, naps: Naps
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API in which a key may make 5 requests a second, and a tenant 8."""
    api = create_api(
        now=now,
        limits=when.Limits(),
        open_store=home.open,
        monotonic=monotonic,
        registry=registry,
        sleep=naps,
        rates=RequestRates(key_per_second=5, tenant_per_second=8),
    )
    async with in_process(api) as started:
        yield started


async def keys(home: Home, *tenants: str) -> list[dict[str, str]]:
    """The headers of a new key for each of the tenants."""
    store = await home.open()
    try:
        for tenant in {*tenants} - {"default"}:
            await store.tenants.put(SYSTEM, Tenant(id=tenant))
        return [bearer(await new_key(store, tenant=tenant)) for tenant in tenants]
    finally:
        await store.close()


async def statuses(client: httpx.AsyncClient, headers: dict[str, str], count: int) -> list[int]:
    return [(await client.get("/v1/queues", headers=headers)).status_code for _ in range(count)]


async def test_a_key_has_its_own_rate(
    home: Home, client: httpx.AsyncClient, monotonic: Clock
) -> None:
    one, other = await keys(home, "default", "shop")
    # Two seconds' worth at once, and the one that crosses the line.
    assert await statuses(client, one, 12) == [200] * 11 + [429]
    assert await statuses(client, other, 5) == [200] * 5
    refused = await client.get("/v1/queues", headers=one)
    assert refused.json()["limit"] == "key_requests_per_second"
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit-limit"] == "5"
    assert refused.headers["ratelimit-remaining"] == "0"
    assert refused.headers["ratelimit-reset"] == "1"
    monotonic.seconds += 1.0
    assert await statuses(client, one, 6) == [200] * 5 + [429]


async def test_the_keys_of_a_tenant_share_a_rate(
    home: Home, client: httpx.AsyncClient, registry: CollectorRegistry
) -> None:
    one, same, other = await keys(home, "default", "default", "shop")
    assert await statuses(client, one, 10) == [200] * 10
    assert await statuses(client, same, 8) == [200] * 7 + [429]
    refused = await client.get("/v1/queues", headers=same)
    assert refused.json()["limit"] == "tenant_requests_per_second"
    assert await statuses(client, other, 1) == [200]
    assert b'tickwork_http_refused_total{reason="rate"} 2.0' in generate_latest(registry)


async def test_a_tenant_has_a_quota_of_requests_with_all_keys_together(
    home: Home, client: httpx.AsyncClient, monotonic: Clock, registry: CollectorRegistry
) -> None:
    store = await home.open()
    scopes = ("read", "send", "consume", "manage")
    for tenant in (Tenant(id="shop", requests_per_second=2), Tenant(id="other")):
        await store.tenants.put(SYSTEM, tenant)
    one, same, other = [
        bearer(await new_key(store, tenant=tenant, scopes=scopes))
        for tenant in ("shop", "shop", "other")
    ]
    operator = bearer(await new_key(store)) | {"Tickwork-Tenant": "shop"}
    await store.close()
    assert await statuses(client, one, 3) == [200] * 3
    assert await statuses(client, same, 3) == [200] * 2 + [429]
    for headers in (one, same):
        refused = await client.get("/v1/queues", headers=headers)
        answer = refused.json()
        assert (refused.status_code, answer["code"]) == (429, "rate_exceeded")
        assert answer["limit"] == "requests_per_second"
        assert "All keys of tenant shop together may make 2 requests a second" in answer["detail"]
        assert "raise the tenant's requests_per_second" in answer["detail"]
        assert refused.headers["ratelimit-limit"] == "2"
        assert int(refused.headers["retry-after"]) >= 1
    assert await statuses(client, other, 6) == [200] * 6
    # Whoever can change the quota is not locked out by it.
    assert await statuses(client, operator, 6) == [200] * 6
    monotonic.seconds += 1.0
    assert await statuses(client, one, 1) + await statuses(client, same, 2) == [200, 200, 429]
    assert b'tickwork_http_refused_total{reason="rate"} 4.0' in generate_latest(registry)


@pytest.mark.parametrize("way", ["header", "session"])
async def test_wrong_keys_are_limited_by_address(
    home: Home, client: httpx.AsyncClient, monotonic: Clock, registry: CollectorRegistry, way: str
) -> None:
    known, unseen = await keys(home, "default", "default")
    assert await statuses(client, known, 1) == [200]

    async def guess() -> int:
        if way == "header":
            return (await client.get("/v1/queues", headers=WRONG)).status_code
        token = WRONG["Authorization"].removeprefix("Bearer ")
        return (await client.post("/v1/session", json={"key": token})).status_code

    assert [await guess() for _ in range(23)] == [401] * 20 + [429] * 3
    # Others may have the same address: what was right is still right.
    assert await statuses(client, known, 1) == [200]
    assert await statuses(client, unseen, 1) == [429]
    metrics = generate_latest(registry)
    assert b'tickwork_http_refused_total{reason="wrong_key"} 20.0' in metrics
    assert b'tickwork_http_refused_total{reason="address"} 4.0' in metrics
    monotonic.seconds += 2.0
    assert await statuses(client, unseen, 1) == [200]


@pytest.mark.parametrize("are_equal", [False, True])
async def test_wrong_keys_at_once_are_limited_too(
    home: Home, client: httpx.AsyncClient, monotonic: Clock, *, are_equal: bool
) -> None:
    (right,) = await keys(home, "default")

    async def guess(number: int) -> int:
        wrong = bearer(f"tw_0123456789_{0 if are_equal else number:064}")
        return (await client.get("/v1/queues", headers=wrong)).status_code

    answers = Counter(await asyncio.gather(*map(guess, range(150))))
    assert answers == {401: 20, 429: 130}
    assert await statuses(client, right, 1) == [429]
    monotonic.seconds += 1.0
    assert await statuses(client, right, 1) == [200]
    # It was right, and counts as no guess.
    assert [await guess(number) for number in (200, 201)] == [401, 429]


async def test_wrong_keys_are_answered_later_and_later(
    client: httpx.AsyncClient, monotonic: Clock, naps: Naps
) -> None:
    assert await statuses(client, WRONG, 22) == [401] * 20 + [429] * 2
    assert naps.seconds == pytest.approx([number / 10 for number in range(20)])
    monotonic.seconds += 60.0
    assert await statuses(client, WRONG, 1) == [401]
    assert naps.seconds[20:] == [0.0]


async def test_others_are_answered_while_wrong_keys_wait(
    home: Home, client: httpx.AsyncClient, naps: Naps
) -> None:
    (right,) = await keys(home, "default")
    assert await statuses(client, right, 1) == [200]
    naps.may_end.clear()
    wrong = [bearer(f"tw_0123456789_{number:064}") for number in range(20)]
    guesses = [asyncio.create_task(statuses(client, headers, 1)) for headers in wrong]
    await eventually(lambda: len(naps.seconds) == len(guesses))
    assert await statuses(client, right, 5) == [200] * 5
    assert (await client.get("/healthz")).status_code == 200
    assert not any(guess.done() for guess in guesses)
    naps.may_end.set()
    assert await asyncio.gather(*guesses) == [[401]] * len(guesses)


async def test_the_answers_that_are_delayed_are_bounded(
    monotonic: Clock, registry: CollectorRegistry, naps: Naps
) -> None:
    gate = RequestGate(RequestRates(), monotonic, registry, naps)
    naps.may_end.clear()

    async def guess(number: int) -> None:
        with pytest.raises(Unauthorized):
            async with gate.guess(f"192.0.{number // 250}.{number % 250}", f"{number}"):
                raise Unauthorized("Authorization", "it is wrong")

    guesses = [asyncio.create_task(guess(number)) for number in range(DELAYED_MAX + 7)]
    await eventually(lambda: len(naps.seconds) == DELAYED_MAX)
    await asyncio.gather(*guesses[DELAYED_MAX:])
    naps.may_end.set()
    await asyncio.gather(*guesses)
    # Those that have waited make room for others, also one whose caller has gone.
    naps.may_end.clear()
    gone = asyncio.create_task(guess(DELAYED_MAX + 8))
    await eventually(lambda: len(naps.seconds) == DELAYED_MAX + 1)
    gone.cancel()
    await asyncio.wait([gone])
    assert gate._delayed == 0


async def test_many_requests_at_once_with_a_key_that_is_right_are_no_guesses(home: Home) -> None:
    api = create_api(now=now, limits=when.Limits(), open_store=home.open)
    (right,) = await keys(home, "default")
    async with in_process(api) as client:
        asked = [client.get("/v1/queues", headers=right) for _ in range(60)]
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}


async def test_a_request_without_a_key_is_no_guess(client: httpx.AsyncClient) -> None:
    assert await statuses(client, {}, 40) == [401] * 40
    assert (await client.get("/healthz")).status_code == 200


def test_the_callers_that_are_remembered_are_bounded() -> None:
    rates = Rates()
    for number in range(3 * CALLERS_MAX):
        rates.count(number, 0.001, 0.0)
    assert len(rates._used_until) <= CALLERS_MAX


def test_a_network_of_ipv6_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1")
    assert network_of("2001:db8::1") != network_of("2001:db8:0:1::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("testclient") == "testclient"


async def test_runs_that_a_caller_asks_for_count_against_its_quota(http: httpx.AsyncClient) -> None:
    await http.put("/v1/queues/q", json={})
    target = {"type": "queue", "queue": "q"}
    body = {"interval_seconds": 60, "start_at": "2026-01-01T00:00:00Z", "target": target}
    made = (await http.post("/v1/schedules", json=body)).json()
    await http.patch("/v1/tenants/default", json={"messages_per_second": 3})
    path = f"/v1/schedules/{made['id']}"
    hour = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T01:00:00Z"}
    refused = await http.post(f"{path}/backfill", json=hour)
    assert (refused.status_code, refused.json()["limit"]) == (429, "messages_per_second")
    answers = [(await http.post(f"{path}/trigger")).status_code for _ in range(30)]
    assert answers[0] == 201
    assert 429 in answers


async def test_owners_have_a_least_interval_of_their_own(home: Home) -> None:
    api = create_api(now=now, limits=when.Limits(1, 60), open_store=home.open)
    store = await home.open()
    shop = Tenant(id="shop", owner_targets=("queue:q",), min_interval_seconds=1)
    await store.tenants.put(SYSTEM, shop)
    every = bearer(await new_key(store, tenant="shop"))
    scopes = ("read", "manage")
    ada = bearer(await new_key(store, tenant="shop", owner="ada", scopes=scopes))
    await store.close()
    fast = {"interval_seconds": 30, "target": {"type": "queue", "queue": "q"}}
    async with in_process(api) as client:
        await client.put("/v1/queues/q", json={}, headers=every)
        assert (await client.post("/v1/schedules", json=fast, headers=every)).status_code == 201
        refused = await client.post("/v1/schedules", json=fast, headers=ada)
        assert "the minimum here is 60 s" in refused.json()["detail"]
        preview = {"interval_seconds": 30}
        path = "/v1/schedules/preview"
        assert (await client.post(path, json=preview, headers=every)).status_code == 200
        assert (await client.post(path, json=preview, headers=ada)).status_code == 422
        slow = {**fast, "interval_seconds": 60}
        made = await client.post("/v1/schedules", json=slow, headers=ada)
        assert made.status_code == 201, made.text
        changed = {"interval_seconds": 30}
        path = f"/v1/schedules/{made.json()['id']}"
        assert (await client.patch(path, json=changed, headers=ada)).status_code == 422
