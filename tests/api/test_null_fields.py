"""A field that is documented as never null is never null: a null is not taken for its default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from tests.api.acts import fields_of, problem

FIELDS_MIN = 70
"""Least number of such fields, of all bodies."""

DEPTH_MAX = 3


class Field(NamedTuple):
    """A field of the body of a route: the names that lead to it, and whether it may be null, or
    must be given."""

    route: str
    names: tuple[str, ...]
    takes_null: bool
    is_required: bool


def choices(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas that a value may have, of which lists are those of their items."""
    if "$ref" in schema:
        return choices(document, document["components"]["schemas"][schema["$ref"].split("/")[-1]])
    inner = [one for kind in ("oneOf", "anyOf", "allOf") for one in schema.get(kind, ())]
    return [choice for one in inner for choice in choices(document, one)] or [schema]


def takes_null(choice: Mapping[str, Any]) -> bool:
    if "enum" in choice or "const" in choice:
        return None in [*choice.get("enum", ()), choice.get("const", 0)]
    return "null" in choice["type"] if "type" in choice else True


def fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], route: str, names: tuple[str, ...] = ()
) -> Iterator[Field]:
    objects = choices(document, schema)
    for choice in objects:
        for name, inner in choice.get("properties", {}).items():
            may_be_null = any(map(takes_null, choices(document, inner)))
            is_required = name in choice.get("required", ())
            yield Field(route, (*names, name), may_be_null, is_required)
            if len(names) < DEPTH_MAX and len(objects) == 1:
                yield from fields(document, inner, route, (*names, name))


@pytest.mark.one_store("sqlite")
async def test_null_is_refused_where_it_is_not_documented(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    refused = {
        field
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for media in operation.get("requestBody", {}).get("content", {}).values()
        for field in fields(document, media["schema"], f"{method.upper()} {path}")
        if not field.takes_null and not field.is_required
    }
    assert len(refused) >= FIELDS_MIN
    for field in refused:
        method, path = re.sub(r"\{\w+\}", "nothing", field.route).split()
        body: Any = None
        for name in reversed(field.names):
            body = {name: body}
        answer = await http.request(method, path, json=body)
        told = problem(answer, 422, "invalid_input")
        fault = {
            "field": ".".join(field.names),
            "message": "must not be null; leave it out, or give a value",
        }
        assert told["errors"] == [fault], field


async def test_null_gives_a_field_of_a_schedule_its_default_again(http: httpx.AsyncClient) -> None:
    given = {"timezone": "Europe/Berlin", "jitter_seconds": 9, "roll": "next_day"}
    target = {"type": "queue", "queue": "q"}
    new = {"cron_expr": "0 9 * * *", "target": target, "exclude": ["2030-01-01"], **given}
    await http.put("/v1/queues/q", json={})
    path = f"/v1/schedules/{(await http.post('/v1/schedules', json=new)).json()['id']}"
    for name, value in {"timezone": "UTC", "jitter_seconds": 0, "roll": "skip"}.items():
        changed = await http.patch(path, json={name: None})
        assert changed.json()[name] == value, changed.text
        told = problem(
            await http.post("/v1/schedules", json={**new, name: None}), 422, "invalid_input"
        )
        assert fields_of(told) == [name]


async def test_acks_and_retries_are_lists(http: httpx.AsyncClient) -> None:
    await http.put("/v1/queues/q", json={})
    path = "/v1/queues/q/messages/ack"
    told = problem(
        await http.post(path, json={"acks": None, "retries": None}), 422, "invalid_input"
    )
    assert fields_of(told) == ["acks", "retries"]
    assert (await http.post(path, json={"acks": []})).status_code == 200


@pytest.mark.one_store("sqlite")
async def test_nulls_in_the_items_of_a_list_are_named(http: httpx.AsyncClient) -> None:
    await http.put("/v1/queues/q", json={})
    messages = [{"body": None}, {"body": 1, "priority": None}]
    answer = await http.post("/v1/queues/q/messages/batch", json={"messages": messages})
    (error,) = problem(answer, 422, "invalid_input")["errors"]
    assert error["field"] == "messages[1].priority"


@pytest.mark.one_store("sqlite")
async def test_fields_that_may_be_null_are_as_if_they_were_left_out(
    http: httpx.AsyncClient,
) -> None:
    path = "/v1/workflows/ship/runs"
    nulls = {"id": None, "deadline_seconds": None, "correlation_id": None}
    problem(
        await http.post(path, json=nulls), 404, "not_found"
    )  # Nobody has declared the workflow.
    for name, value in {"id": "", "deadline_seconds": 0, "correlation_id": ""}.items():
        told = problem(await http.post(path, json={name: value}), 422, "invalid_input")
        assert fields_of(told) == [name]
