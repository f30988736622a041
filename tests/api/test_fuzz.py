"""Any request gets a response or a problem, never an internal error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient

from tests.kit.soak import examples
from tickwork.core import when

Client = TestClient[Litestar]

FUZZ = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
NUMBERS = st.integers() | st.integers(-1, 61) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.sampled_from(
    ["", "last", "UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "../etc/passwd",
     "skip", "shift", "both", "next_day", "fixed_delay", "last_day",
     "* * * * *", "0 0 30 2 *", "0 0 29 2 1#5", "H H(0-7)/3 * * *", "@daily", "0 0 L,15W * 5L",
     "FREQ=DAILY", "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "RRULE:FREQ=YEARLY;BYDAY=53MO",
     "2027-03-14T02:30:00", "2027-02-30", "2027-12-25", "9000-12-31T23:59:59Z",
     "1970-01-01T00:00:00+14:00", "2026-11-15T03:00:00.000001-23:59"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=20)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
PARTS = st.sampled_from(
    ["hour", "minute", "day", "day_of_week", "short_month", "gap", "overlap", "policy", "cap"]
)
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(PARTS, LEAVES, max_size=4)
FIELDS = st.sampled_from([*sorted(when.RULE_FIELDS), "limit", "from"])
BODIES = st.dictionaries(FIELDS, VALUES, max_size=5)


def judge(client: Client, body: bytes) -> None:
    response = client.post(
        "/v1/schedules/preview", content=body, headers={"Content-Type": "application/json"}
    )
    if response.status_code == 200:
        assert response.json().keys() == {"fires", "description", "warnings"}
        return
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = response.json()
    assert told["status"] == response.status_code
    assert told["code"] in ("invalid_json", "invalid_input", "nul_character", "unknown_field")
    assert bool(told["errors"]) == (told["code"] != "invalid_json")


@FUZZ
@given(body=ANYTHING)
def test_any_json_gets_a_response_or_a_problem(client: Client, body: object) -> None:
    judge(client, json.dumps(body).encode())


@FUZZ
@given(body=BODIES)
def test_any_fields_get_a_response_or_a_problem(client: Client, body: dict[str, object]) -> None:
    judge(client, json.dumps(body).encode())


@FUZZ
@given(body=st.binary(max_size=200))
def test_any_bytes_are_refused(client: Client, body: bytes) -> None:
    judge(client, body)
