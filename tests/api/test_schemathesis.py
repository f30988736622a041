"""Whatever a client sends to any operation, the answer is one that the API documents.

Schemathesis makes requests from the OpenAPI document: valid and invalid ones, one by one for each
operation, and in sequences in which an answer feeds the next request.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.kit.api import Client, api_client
from tests.kit.soak import SOAK

IS_SOAK = bool(os.environ.get(SOAK))
CASES = 500 if IS_SOAK else 8
SEQUENCES = 200 if IS_SOAK else 10
ROUND = 10
"""Sequences that Hypothesis makes at a time."""

STEPS = 10
ANSWER_SECONDS_MAX = 20.0
"""Seconds after which a request counts as hung."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SLOW = ("wait_ms", "canary_timeout_seconds")
"""Fields that make a request wait."""

KNOWN_IN = 3
"""Of so many path parameters one is as it was generated; the others name something that exists."""

SETTINGS = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


class Api:
    """The API with something of each kind in it."""

    def __init__(self, client: Client) -> None:
        self._client, self._random = client, Random(7)
        self.document = client.get("/openapi.json").json()
        self.schema = schemathesis.openapi.from_dict(self.document)
        self.answers: Counter[tuple[str, int]] = Counter()
        self._known = _fill(client)

    def ask(self, case: Case[Any]) -> httpx.Response:
        """Sends a request and checks its answer."""
        for name in case.path_parameters or {}:
            if name in self._known and self._random.randrange(KNOWN_IN):
                case.path_parameters[name] = self._known[name]
        if isinstance(case.body, dict):
            for name in SLOW:
                case.body.pop(name, None)
        request = case.as_transport_kwargs(base_url="http://testserver.local")
        request.pop("cookies", None)
        (request.get("headers") or {}).pop("Authorization", None)  # The client has a key.
        if isinstance(request.get("data"), bytes | str):
            request["content"] = request.pop("data")
        began = monotonic()
        response = self._client.request(**request)
        assert monotonic() - began < ANSWER_SECONDS_MAX, request
        self.answers[case.operation.label, response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400:
            assert response.json()["status"] == response.status_code
        return response


def _fill(client: Client) -> dict[str, str]:
    """Creates something of each kind, and returns what path parameters may name."""

    def made(method: str, path: str, **body: Any) -> dict[str, Any]:
        response = client.request(method, f"/v1/{path}", json=body)
        assert response.status_code in (200, 201), response.text
        found: dict[str, Any] = response.json()
        return found

    made("PUT", "queues/q")
    message = made("POST", "queues/q/messages", body={"a": 1})
    schedule = made(
        "POST",
        "schedules",
        interval_seconds=3_600,
        name="hourly",
        target={"type": "queue", "queue": "q"},
    )
    batch = made("POST", "batches", queue="q", items=[{"body": 1}, {"body": 2}])
    made("PUT", "limits/shared", rate=5)
    made("PUT", "calendars/holidays", days=["2027-01-01"])
    made("POST", "tenants", id="shop")
    key = made("POST", "tenants/shop/keys", name="one", scopes=["read"])
    endpoint = made(
        "POST", "endpoints", name="crm", url="https://crm.example.com/hook", types=["order.*"]
    )
    made("POST", "events", type="order.paid", data={"n": 1})
    (delivery,) = client.get("/v1/deliveries").json()["items"]
    return {
        "queue": "q",
        "message_id": message["id"],
        "schedule": schedule["id"],
        "batch": batch["id"],
        "limit_name": "shared",
        "calendar": "holidays",
        "tenant": "shop",
        "key": key["id"],
        "endpoint": endpoint["id"],
        "delivery": delivery["id"],
    }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_client(tmp_path) as client:
        yield Api(client)


def test_each_operation_answers_as_documented(api: Api) -> None:
    def ask(case: Case[Any]) -> None:
        api.ask(case)

    for found in api.schema.get_all_operations():
        assert isinstance(found, Ok)
        cases = found.ok().as_strategy()
        settings(SETTINGS, max_examples=CASES)(given(case=cases)(ask))()
    asked = {label for label, _ in api.answers}
    documented = {
        f"{method.upper()} {path}"
        for path, item in api.document["paths"].items()
        for method in item
    }
    assert asked == documented
    served = {label for label, status in api.answers if status < 300}
    assert len(served) > len(documented) / 2, sorted(documented - served)


def test_a_sequence_of_requests_is_answered_as_documented(api: Api) -> None:
    machine: Any = api.schema.as_state_machine()

    class Sequence(machine):  # type: ignore[misc]
        def call(self, case: Case[Any], **_: Any) -> Response:
            response: Response = Response.from_any(api.ask(case))
            return response

        def get_call_kwargs(self, _case: Case[Any]) -> dict[str, Any]:
            return {}

        def validate_response(self, *_: Any, **__: Any) -> None:
            """Was checked when it was called."""

    run = settings(SETTINGS, max_examples=ROUND, stateful_step_count=STEPS)
    for number in range(SEQUENCES // ROUND):
        # A sequence that begins as an earlier one goes on in another way, because the API has
        # changed meanwhile. Hypothesis ends a round that draws the same beginning again.
        with suppress(FlakyStrategyDefinition):
            seed(number)(Sequence).run(settings=run)
    assert sum(api.answers.values()) > SEQUENCES
