"""Any fields in any operation get an answer or a problem, never an internal error."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.api import Client, api_client
from tests.kit.soak import examples

CASES = examples(20)
ODD: list[Any] = [
    None, True, 0, -1, 1, 1.5, 2**63, -(2**70), 1e308, "", " ", "q", "x" * 600, "\x00",
    "2027-03-14T09:00:00Z", "2027-02-30", "*", "order.*", "@daily", "Europe/Berlin", "UTC", "../..",
    [], [None], [{}], ["a"], [{"body": 1}], {}, {"a": {"b": [1]}}, {"type": "queue", "queue": "q"},
    {"kind": "fixed", "seconds": 5}, {"hour": 9, "minute": 0}, "msg_" + "0" * 32, "json", "bytes",
]  # fmt: skip
SLOW = ("wait_ms", "canary_timeout_seconds")
"""Fields that make a request wait."""


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    one = (schema.get("oneOf") or [schema])[0]
    name = one.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name] if name else one
    return found


def body_of(random: Random, names: list[str], required: list[str]) -> dict[str, Any]:
    chosen = [each for each in names if each in required or random.random() < 0.3]
    return {each: random.choice(ODD) for each in chosen if each not in SLOW}


def test_any_fields_in_any_operation_get_an_answer_or_a_problem(tmp_path: Path) -> None:
    random = Random(7)
    with api_client(tmp_path) as client:
        client.put("/v1/queues/q", json={})
        document = client.get("/openapi.json").json()
        for path, item in document["paths"].items():
            for method, operation in item.items():
                for _ in range(CASES):
                    ask(client, random, document, method, path, operation)


def ask(
    client: Client,
    random: Random,
    document: dict[str, Any],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    url = re.sub(r"\{.*?\}", lambda _: random.choice(["q", "nothing", "%00", "%ff", "ü"]), path)
    named = [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
    query = {each: str(random.choice(ODD)) for each in named if random.random() < 0.3}

    headers = {}
    if random.random() < 0.2:
        headers = {"Idempotency-Key": random.choice(["k", "x" * 300, "a b"]), "If-Match": '"v1"'}
    body = None
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = resolved(document, content["schema"])
        body = body_of(random, [*schema.get("properties", {})], schema.get("required", []))
    response = client.request(method.upper(), url, params=query, json=body, headers=headers)
    where = f"{method} {url} {query} {body}: {response.text[:500]}"
    assert response.status_code < 500, where
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json", where
        told = response.json()
        assert told["status"] == response.status_code, where
        assert str(response.status_code) in operation["responses"], where
