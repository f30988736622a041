"""`POST /v1/schedules/preview`: the response and every problem."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from httpx import Response
from litestar import Litestar
from litestar.testing import TestClient

from tests.kit.api import bearer, new_key_of
from tickwork import Tickwork
from tickwork.wiring import Role, Settings
from tickwork.wiring.server import build_api

Client = TestClient[Litestar]
URL = "/v1/schedules/preview"
PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "errors"}


def send(client: Client, body: bytes, media_type: str | None = "application/json") -> Response:
    headers = {"Content-Type": media_type} if media_type else {}
    return client.post(URL, content=body, headers=headers)


def refusal(response: Response, *, status: int, code: str) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = response.json()
    assert told.keys() == PROBLEM_FIELDS
    assert (response.status_code, told["status"], told["code"]) == (status, status, code)
    assert told["type"].endswith(code)
    assert told["title"]
    assert told["detail"]
    return told


def test_a_preview_returns_fires_description_and_warnings(client: Client) -> None:
    response = client.post(
        URL,
        json={
            "cron_expr": "30 2 * * *",
            "timezone": "America/New_York",
            "from": "2027-03-13T12:00:00Z",
            "limit": 2,
        },
    )
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "fires": [
            {
                "fire_at": "2027-03-14T07:00:00Z",
                "local": "2027-03-14T03:00:00-04:00",
                "dst": "gap",
                "note": "on 2027-03-14 at 03:00 instead of 02:30",
            },
            {
                "fire_at": "2027-03-15T06:30:00Z",
                "local": "2027-03-15T02:30:00-04:00",
                "dst": None,
                "note": None,
            },
        ],
        "description": "At 02:30, every day, New York time",
        "warnings": [],
    }


def test_a_preview_starts_now_by_default(client: Client) -> None:
    fires = client.post(URL, json={"cron_expr": "0 * * * *", "limit": 1}).json()["fires"]
    assert fires[0]["fire_at"] == "2026-11-15T04:00:00Z"


def test_a_preview_has_at_most_a_thousand_fires(client: Client) -> None:
    body = {"cron_expr": "* * * * *", "limit": 1000}
    assert len(client.post(URL, json=body).json()["fires"]) == 1000
    told = refusal(client.post(URL, json={**body, "limit": 1001}), status=422, code="invalid_input")
    assert told["errors"][0]["field"] == "limit"


def test_every_invalid_field_is_reported_at_once(client: Client) -> None:
    response = client.post(URL, json={"cron_expr": "61 * * * *", "limit": 0, "colour": "red"})
    told = refusal(response, status=400, code="unknown_field")
    assert {error["field"] for error in told["errors"]} == {"cron_expr", "limit", "colour"}
    assert all(error["message"] for error in told["errors"])
    assert told["detail"].startswith("3 errors; the first is ")


def test_a_single_fault_is_also_in_the_detail(client: Client) -> None:
    told = refusal(client.post(URL, json={"interval_seconds": 5}), status=422, code="invalid_input")
    assert told["detail"] == "interval_seconds: fires 5 s apart; the minimum here is 60 s"


def test_seconds_in_cron_are_refused_at_the_usual_minimum(client: Client) -> None:
    response = client.post(URL, json={"cron_expr": "* * * * * *"})
    told = refusal(response, status=422, code="invalid_input")
    assert told["errors"][0]["field"] == "cron_expr"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{}{}",
        b"null",
        b"true",
        b"5",
        b'"text"',
        b"[]",
        b'[{"cron_expr": "@daily"}]',
        b'{"limit": NaN}',
        b'{"limit": Infinity}',
        b'{"limit": 1e999}',
        b'{"limit": 0x10}',
        b"{'count': 1}",
        b"\x00",
        b'{"cron_expr": "\x00"}',
        b"\xff\xfe",
        b'{"cron_expr": "\xff"}',
        b'{"cron_expr": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b'{"cron_expr":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
)
def test_a_body_that_is_not_a_json_object_is_a_bad_request(client: Client, body: bytes) -> None:
    refusal(send(client, body), status=400, code="invalid_json")


@pytest.mark.parametrize(
    "value",
    [
        "9" * 399,
        "-" + "9" * 30,
        "1e300",
        "1.5",
        "true",
        '"\\u0000"',
        '"\\u0000 9 * * *"',
        '"' + "*" * 100_000 + '"',
        "[" * 20 + "]" * 20,
        '{"a": {"b": {"c": [1, 2, {}]}}}',
        '"\U0001f600"',
        '""',
        '"   "',
    ],
)
@pytest.mark.parametrize(
    "field",
    ["cron_expr", "interval_seconds", "daily_time", "once_at", "rrule", "from", "limit", "dst",
     "timezone", "exclude", "start_at", "missed", "jitter_seconds"],
)  # fmt: skip
def test_odd_values_are_refused_by_field(client: Client, field: str, value: str) -> None:
    body = "{" + f'"{field}": {value}' + "}"
    response = send(client, body.encode())
    is_unknown = response.status_code == 400  # A field inside of it.
    code = "unknown_field" if is_unknown else "invalid_input"
    if "u0000" in value:
        code = "nul_character"
    refusal(response, status=400 if is_unknown else 422, code=code)


def test_a_body_has_at_most_a_megabyte(client: Client) -> None:
    padded = b'{"cron_expr": "@daily"}'.ljust(1_000_000)
    assert send(client, padded).status_code == 200
    told = refusal(send(client, padded + b" "), status=413, code="body_too_large")
    assert "send a reference" in told["detail"]


def test_the_response_to_many_faults_is_bounded(client: Client) -> None:
    body = json.dumps({f"field {number}": 1 for number in range(20_000)}).encode()
    response = send(client, body)
    told = refusal(response, status=400, code="unknown_field")
    assert len(told["errors"]) == 100
    assert len(response.content) < len(body)


def test_text_of_the_request_is_truncated_in_the_response(client: Client) -> None:
    response = send(client, json.dumps({"x" * 500_000: 1}).encode())
    refusal(response, status=400, code="unknown_field")
    assert len(response.content) < 5_000


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "text/x+json", None])
def test_every_json_media_type_is_accepted(client: Client, media_type: str | None) -> None:
    assert send(client, b'{"cron_expr": "@daily"}', media_type).status_code == 200


@pytest.mark.parametrize(
    "media_type", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]
)
def test_the_problem_of_another_media_type_names_json(client: Client, media_type: str) -> None:
    response = send(client, b'{"cron_expr": "@daily"}', media_type)
    told = refusal(response, status=415, code="unsupported_media_type")
    assert "Content-Type: application/json" in told["detail"]


def test_a_preview_uses_the_stored_calendars(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'server.db'}"
    body = {"cron_expr": "0 9 * * *", "from": "2027-03-01T00:00:00Z", "limit": 2}
    app = Tickwork(database)

    async def close() -> None:
        await app.calendars.put("closed", ["2027-03-02"])
        await app.close()

    asyncio.run(close())
    settings = Settings(database=database, roles=frozenset({Role.API}))
    headers = bearer(new_key_of(settings))
    with TestClient(build_api(settings)) as server:
        server.headers.update(headers)
        answer = server.post(URL, json={**body, "calendar": "closed"})
        assert [fire["fire_at"][:10] for fire in answer.json()["fires"]] == [
            "2027-03-01",
            "2027-03-03",
        ]
        response = server.post(URL, json={**body, "calendar": "nowhere"})
        told = refusal(response, status=422, code="invalid_input")
        assert [error["field"] for error in told["errors"]] == ["calendar"]
