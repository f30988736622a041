"""What is repeated and what is not, and which error an answer is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.kit import Reply, Scripted
from tickwork import SyncClient
from tickwork.client import exchange
from tickwork.client.exchange import Answer, Lost
from tickwork.errors import (
    BacklogFull,
    Conflict,
    EntityBusy,
    Forbidden,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    ServiceFailed,
    ServiceUnavailable,
    StoreUnavailable,
    TickworkError,
    TooMany,
    Unauthorized,
)

NOT_SENT, NO_ANSWER = Lost(False, "refused"), Lost(True, "reset")
OK = Answer(200, {}, b"{}")
SENT = Answer(201, {}, b'{"id": "msg_00000000000000000000000000000001", "event_id": null}')


def problem(status: int, code: str, detail: str = "No.", **headers: str) -> Answer:
    body = {"status": status, "code": code, "detail": detail, "errors": []}
    return Answer(status, headers, json.dumps(body).encode())


UNAVAILABLE = problem(503, "store_unavailable")
BUSY = problem(429, "too_many", **{"retry-after": "7"})
NO_ROOM = problem(429, "too_many", **{"retry-after": "60"})
RUNNING = problem(409, "request_running")
GONE = problem(404, "not_found", "There is no queue emails.")

KEYED: Callable[[SyncClient], Any] = lambda c: c.queue("emails").send(1)  # noqa: E731
ONCE: Callable[[SyncClient], Any] = lambda c: c.queues.purge("emails")  # noqa: E731
SAFE: Callable[[SyncClient], Any] = lambda c: c.queues.pause("emails")  # noqa: E731
DELETE: Callable[[SyncClient], Any] = lambda c: c.queues.delete("emails")  # noqa: E731


class Waits:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    waits = Waits()
    monkeypatch.setattr("tickwork.client.transport.time.sleep", waits.sleep)
    monkeypatch.setattr(exchange, "monotonic", lambda: waits.now)
    return waits


def client_of(*replies: Reply) -> tuple[SyncClient, Scripted]:
    scripted = Scripted(*replies)
    return SyncClient("http://t", key="tw_secret", transport=scripted), scripted


@pytest.mark.parametrize(
    ("call", "replies"),
    [
        (KEYED, [NOT_SENT, SENT]),
        (KEYED, [NO_ANSWER, SENT]),
        (KEYED, [UNAVAILABLE, NO_ANSWER, SENT]),
        (KEYED, [NO_ANSWER, RUNNING, RUNNING, SENT]),
        (KEYED, [UNAVAILABLE, RUNNING, SENT]),
        (KEYED, [BUSY, SENT]),
        (SAFE, [NO_ANSWER, UNAVAILABLE, OK]),
        (ONCE, [NOT_SENT, BUSY, Answer(200, {}, b'{"purged": 3}')]),
        (DELETE, [NO_ANSWER, GONE]),
        (DELETE, [UNAVAILABLE, GONE]),
        (DELETE, [NO_ANSWER, Answer(204, {}, b"")]),
    ],
)
def test_a_request_is_repeated_where_a_repeat_has_no_second_effect(
    call: Any, replies: list[Reply], waits: Waits
) -> None:
    client, scripted = client_of(*replies)
    call(client)
    assert len(scripted.requests) == len(replies)
    assert len(waits.pauses) == len(replies) - 1
    assert len({str(request) for request in scripted.requests}) == 1, (
        "every attempt is the same request"
    )


@pytest.mark.parametrize(
    ("call", "reply", "error"),
    [
        (ONCE, NO_ANSWER, ServiceUnavailable),
        (ONCE, UNAVAILABLE, StoreUnavailable),
        (KEYED, RUNNING, Conflict),
        (KEYED, NO_ROOM, TooMany),
        (DELETE, GONE, NotFound),
        (KEYED, problem(500, "internal_error"), ServiceFailed),
        (KEYED, Answer(502, {}, b"<html>"), ServiceFailed),
    ],
)
def test_other_requests_are_sent_once(
    call: Any, reply: Reply, error: type[TickworkError], waits: Waits
) -> None:
    client, scripted = client_of(reply)
    with pytest.raises(error):
        call(client)
    assert (len(scripted.requests), waits.pauses) == (1, [])


def test_repeats_end_after_the_time_for_them(waits: Waits) -> None:
    client, scripted = client_of(*[NOT_SENT] * 100)
    with pytest.raises(ServiceUnavailable, match="service http://t: refused"):
        KEYED(client)
    assert 5 < len(scripted.requests) < 20
    assert 20 < waits.now <= 30


def test_the_server_says_how_long_to_wait(waits: Waits) -> None:
    client, _ = client_of(BUSY, SENT)
    KEYED(client)
    assert waits.pauses == [7.0]


def test_a_key_is_made_once_for_each_call(waits: Waits) -> None:
    client, scripted = client_of(NO_ANSWER, SENT, SENT)
    KEYED(client)
    KEYED(client)
    keys = [request.headers["Idempotency-Key"] for request in scripted.requests]
    assert keys[0] == keys[1] != keys[2]
    assert waits.pauses


@pytest.mark.usefixtures("waits")
def test_a_secret_that_is_lost_with_its_answer_is_an_error() -> None:
    made = {
        "id": "k1", "tenant": "default", "name": "n", "scopes": ["read"], "owner": None,
        "created_at": "2027-01-01T00:00:00Z", "expires_at": None, "last_used_at": None,
        "revoked_at": None, "previous_until": None, "token": "",
    }  # fmt: skip
    again = Answer(201, {"idempotency-replayed": "true"}, json.dumps(made).encode())
    client, _ = client_of(NO_ANSWER, again)
    with pytest.raises(Conflict, match="k1 was created, but its token was lost"):
        client.keys.create("n", scopes=["read"])


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "key_expired", Unauthorized("key_expired", "API key k1 has expired")),
        (403, "needs_read", Forbidden("needs_read", "this needs a key with the scope read")),
        (404, "not_found", NotFound("dead letter", "dead_1", "it was resolved")),
        (409, "conflict", Conflict("queue emails is shared")),
        (412, "precondition_failed", PreconditionFailed("queue", "emails")),
        (409, "entity_busy", EntityBusy("Brand", "a b", "has 1000 waiting calls")),
        (429, "backlog_full", BacklogFull("emails", 1_000)),
        (429, "too_many", TooMany("tenant a has 3 schedules", "schedules_max")),
    ],
)
def test_a_problem_becomes_the_error_it_was(status: int, code: str, error: Any) -> None:
    text = str(error)
    told = problem(status, code, f"{text[:1].upper()}{text[1:]}.")
    if isinstance(error, TooMany):
        body = {**json.loads(told.body), "limit": error.limit}
        told = told._replace(body=json.dumps(body).encode())
    client, _ = client_of(told._replace(headers={"retry-after": "99"}))
    with pytest.raises(type(error)) as raised:
        client.queues.get("emails")
    found: Any = raised.value
    same = {**vars(error)} | ({"retry_after_seconds": 99.0} if isinstance(error, TooMany) else {})
    assert (str(found), found.code, vars(found)) == (str(error), error.code, same)


def test_an_invalid_input_names_the_fields_of_the_answer() -> None:
    body = {"code": "invalid_input", "errors": [{"field": "timezone", "message": "is not a zone"}]}
    client, _ = client_of(Answer(422, {}, json.dumps(body).encode()))
    with pytest.raises(InvalidInput) as raised:
        client.schedules.create(cron_expr="@daily", timezone="Mars")
    assert raised.value.errors == (("timezone", "is not a zone"),)


def test_an_answer_that_cannot_be_read_is_an_error_of_the_server() -> None:
    client, _ = client_of(Answer(200, {}, b'{"items": 3}'))
    with pytest.raises(ServiceFailed, match="the answer of GET /v1/queues cannot be read"):
        tuple(client.queues.list())


def test_a_list_goes_on_to_the_last_page_and_stops_at_the_limit() -> None:
    def page(*names: str, cursor: str | None = None) -> Answer:
        items = [{"types": name, "queue": "q"} for name in names]
        return Answer(200, {}, json.dumps({"items": items, "next_cursor": cursor}).encode())

    client, scripted = client_of(page("a", "b", cursor="2"), page("c", cursor="3"), page("d"))
    assert [subscription.types for subscription in client.subscriptions.list()] == [
        "a",
        "b",
        "c",
        "d",
    ]
    assert ["cursor=2" in request.url for request in scripted.requests] == [False, True, False]
    client, scripted = client_of(page("a", "b", cursor="2"), page("c", cursor="3"))
    assert [subscription.types for subscription in client.subscriptions.list(limit=3)] == [
        "a",
        "b",
        "c",
    ]
    assert len(scripted.requests) == 2


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://a", "http://", "http://a:b", "http://a:99999", "http://[::1"],
)
def test_a_bad_address_is_refused_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TICKWORK_URL", raising=False)
    with pytest.raises(InvalidInput, match="url: "):
        SyncClient(url)


def test_a_client_does_not_show_its_key() -> None:
    client, _ = client_of()
    assert "tw_secret" not in repr(client) + repr(client._own.server)
