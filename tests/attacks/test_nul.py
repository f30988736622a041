"""A NUL character in any text of any request is refused with 400, on each store; in the data of
users it is data."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.home import Home
from tickwork.api.nul import DATA_FIELDS
from tickwork.api.pages import write_cursor
from tickwork.store.contract import Store

NUL = "a\0b"
HEADERS = ("Tickwork-Tenant", "Cookie", "X-CSRF-Token", "X-Request-Id", "Authorization")
"""Headers that every route reads."""

Request = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="module")
def reused_api() -> ReusedApi:
    return ReusedApi()


@pytest.fixture
async def http(home: Home, reused_api: ReusedApi, store: Store) -> AsyncIterator[httpx.AsyncClient]:
    key = await new_key(store)
    async with in_process(reused_api.on(home), **bearer(key)) as client:
        yield client


async def operations(http: httpx.AsyncClient) -> list[tuple[str, str, dict[str, Any]]]:
    document = (await http.get("/openapi.json")).json()
    return [
        (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def requests_with_nul(method: str, path: str, operation: dict[str, Any]) -> Iterator[Request]:
    """Requests of an operation, each with one NUL outside of its body."""
    parameters = operation.get("parameters", [])
    names = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
    plain = path
    for name in names:
        plain = plain.replace(f"{{{name}}}", "x")
        with_nul = path.replace(f"{{{name}}}", quote(NUL, safe=""))
        for other in names:
            with_nul = with_nul.replace(f"{{{other}}}", "x%2Fy")
        yield method, with_nul, {}
    json: dict[str, Any] = {"json": {}} if "requestBody" in operation else {}
    for parameter in parameters:
        if parameter["in"] == "query":
            yield method, plain, {"params": {parameter["name"]: NUL}, **json}
    for name in (
        *HEADERS,
        *(parameter["name"] for parameter in parameters if parameter["in"] == "header"),
    ):
        yield method, plain, {"headers": {name: NUL}, **json}


async def test_a_nul_in_a_path_a_query_or_a_header_is_a_bad_request(
    http: httpx.AsyncClient,
) -> None:
    asked = 0
    for method, path, operation in await operations(http):
        for _, target, options in requests_with_nul(method, path, operation):
            answer = await http.request(method, target, **options)
            assert answer.status_code == 400, (method, target, options, answer.text)
            assert answer.json()["code"] == "nul_character", answer.text
            asked += 1
    assert asked > 500


def with_nul(value: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a body, each with one NUL in a text or a name, and the field that has it."""
    if isinstance(value, str):
        yield "", NUL
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for field, changed in with_nul(item):
                yield field, [*value[:at], changed, *value[at + 1 :]]
    elif isinstance(value, dict):
        yield "name", {**value, NUL: 1}
        for name, item in value.items():
            for field, changed in with_nul(item):
                is_data = name in DATA_FIELDS or field in DATA_FIELDS
                yield (
                    name if is_data and name in DATA_FIELDS else field or name,
                    {**value, name: changed},
                )


def bodies_of(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[Any]:
    """Bodies with a text in every field, and the examples in the documentation."""

    def fields_of(schema: dict[str, Any]) -> set[str]:
        found = {*schema.get("properties", {})}
        inner = [part for kind in ("oneOf", "allOf", "anyOf") for part in schema.get(kind, [])]
        if "$ref" in schema:
            inner.append(schemas[schema["$ref"].rpartition("/")[2]])
        return found.union(*map(fields_of, inner))

    for content in operation.get("requestBody", {}).get("content", {}).values():
        for example in content.get("examples", {}).values():
            yield example["value"]
        for name in sorted(fields_of(content["schema"])):
            yield {name: "x"}


async def test_a_nul_in_a_text_of_a_body_is_a_bad_request(http: httpx.AsyncClient) -> None:
    schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    asked = 0
    assert (await http.put("/v1/queues/x", json={})).status_code == 201
    for method, path, operation in await operations(http):
        target = "/".join("x" if part.startswith("{") else part for part in path.split("/"))
        for body in bodies_of(operation, schemas):
            for field, changed in with_nul(body):
                answer = await http.request(method, target, json=changed)
                asked += 1
                assert answer.status_code < 500, (method, path, field, answer.text)
                if field not in DATA_FIELDS:
                    assert answer.status_code == 400, (method, path, field, changed, answer.text)
    assert asked > 200


async def test_a_nul_in_the_data_of_users_is_kept(http: httpx.AsyncClient) -> None:
    data = {"text": NUL, NUL: [NUL]}
    assert (await http.put("/v1/queues/x", json={})).status_code == 201
    sent = await http.post("/v1/queues/x/messages", json={"body": data})
    assert sent.status_code == 201
    kept = await http.get(f"/v1/messages/{sent.json()['id']}")
    assert kept.json()["body"] == data
    target = {"type": "queue", "queue": "x"}
    schedule = {"interval_seconds": 3_600, "target": target, "payload": data}
    made = await http.post("/v1/schedules", json=schedule)
    assert (made.status_code, made.json()["payload"]) == (201, data)
    published = await http.post("/v1/events", json={"type": "a.b", "data": data})
    assert published.status_code == 201
    batch = await http.post("/v1/batches", json={"queue": "x", "items": [{"body": data}]})
    assert batch.status_code == 201


async def test_a_nul_inside_a_cursor_or_a_token_is_refused(http: httpx.AsyncClient) -> None:
    asked = 0
    for method, path, operation in await operations(http):
        names = [
            parameter["name"]
            for parameter in operation.get("parameters", [])
            if parameter["in"] == "query"
        ]
        target = "/".join("x" if part.startswith("{") else part for part in path.split("/"))
        for position in (NUL, [NUL, NUL], ["x", NUL], {"name": NUL}) if "cursor" in names else ():
            answer = await http.request(method, target, params={"cursor": write_cursor(position)})
            assert answer.status_code in (404, 422), (path, answer.text)
            asked += 1
    assert asked > 50
    token = f"tct_{urlsafe_b64encode(bytes(32 + 16) + NUL.encode()).decode()}"
    firing = f"/v1/firings/fir_{0:032x}/complete"
    answer = await http.post(firing, headers={"Tickwork-Complete-Token": token})
    assert answer.status_code == 422
