"""Health checks, documentation and unknown paths."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from httpx import Response

from tests.kit.api import Client, api_client
from tickwork import __version__
from tickwork.api.routes.docs import render_docs
from tickwork.core import when


@pytest.fixture(scope="module")
def document(client: Client) -> dict[str, Any]:
    response = client.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    described: dict[str, Any] = response.json()
    return described


def problem(response: Response, *, status: int, code: str) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = response.json()
    assert (response.status_code, told["status"], told["code"]) == (status, status, code)
    return told


def test_healthz_returns_the_version(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "version": __version__}


def test_a_slash_in_the_query_does_not_change_the_path(client: Client) -> None:
    answer = client.get("/v1/schedules?name=a%2Fb")
    assert (answer.status_code, answer.json()["items"]) == (200, [])


def test_readyz_responds_after_startup(client: Client) -> None:
    assert client.get("/readyz").json() == {"status": "ready", "missing": ["scheduler", "worker"]}


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/schedule", "/docs/nothing", "/%00", "/%ff", "/a/../b"]
)
def test_an_unknown_path_is_a_problem(client: Client, path: str) -> None:
    problem(client.get(path), status=404, code="not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/schedules/preview", "POST"), ("DELETE", "/healthz", "GET")],
)
def test_an_unsupported_method_is_a_problem(
    client: Client, method: str, path: str, allowed: str
) -> None:
    response = client.request(method, path)
    problem(response, status=405, code="method_not_allowed")
    assert allowed in response.headers["allow"]


def test_an_unexpected_error_is_logged_and_its_details_are_hidden(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> datetime:
        raise LookupError("the secret of the house")

    with api_client(tmp_path, now=broken) as client, caplog.at_level(logging.ERROR):
        response = client.post("/v1/schedules/preview", json={"cron_expr": "@daily"})
    problem(response, status=500, code="internal_error")
    assert "secret" not in response.text
    assert "the secret of the house" in caplog.text


def test_the_description_documents_the_preview(document: dict[str, Any]) -> None:
    assert document["info"]["version"] == __version__
    preview = document["paths"]["/v1/schedules/preview"]["post"]
    schema = preview["requestBody"]["content"]["application/json"]["schema"]
    assert schema["examples"]
    fields = document["components"]["schemas"]["PreviewRequest"]["properties"]
    assert fields.keys() == when.RULE_FIELDS | {"limit", "from"}
    assert (fields["limit"]["minimum"], fields["limit"]["maximum"]) == (1, 1000)


def test_the_description_documents_responses_and_problems(document: dict[str, Any]) -> None:
    responses = document["paths"]["/v1/schedules/preview"]["post"]["responses"]
    assert responses.keys() == {"200", "400", "401", "403", "413", "415", "422", "503"}
    answer = document["components"]["schemas"]["Preview"]["properties"]
    assert answer.keys() == {"fires", "description", "warnings"}
    for status in ("400", "401", "403", "413", "415", "422"):
        content = responses[status]["content"]["application/problem+json"]
        assert content["schema"]["$ref"].endswith("/Problem")
        assert content["examples"]


def test_the_examples_of_the_description_are_real_responses(
    client: Client, document: dict[str, Any]
) -> None:
    preview = document["paths"]["/v1/schedules/preview"]["post"]
    asked = preview["requestBody"]["content"]["application/json"]["schema"]["examples"]
    answers = [client.post("/v1/schedules/preview", json=body).json() for body in asked]
    told = preview["responses"]["200"]["content"]["application/json"]["examples"]
    assert [example["value"] for example in told.values()] == answers[:1]
    assert all(answer["fires"] for answer in answers)


def test_the_docs_need_neither_network_nor_script(client: Client) -> None:
    response = client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in response.text
    assert "src=" not in response.text
    assert "script-src" not in response.headers["content-security-policy"]
    assert response.headers["content-security-policy"].startswith("default-src 'none'")


def test_the_docs_show_every_operation_and_field(client: Client, document: dict[str, Any]) -> None:
    page = client.get("/docs").text
    for path, item in document["paths"].items():
        assert all(f"<code>{method.upper()} {path}</code>" in page for method in item)
    assert all(f"<code>{field}</code>" in page for field in when.RULE_FIELDS)
    assert "curl &quot;$TICKWORK_URL&quot;/v1/schedules/preview" in page


def test_the_docs_escape_everything() -> None:
    evil = "<script>alert('\"&')</script>"
    schema = {
        "description": evil,
        "properties": {evil: {"type": evil, "description": evil, "enum": [evil], "default": evil}},
        "examples": [{evil: evil}],
    }
    content = {evil: {"schema": schema, "examples": {evil: {"value": evil}}}}
    operation = {
        "summary": evil,
        "description": evil,
        "requestBody": {"content": content},
        "responses": {evil: {"description": evil, "content": content}},
    }
    document = {
        "info": {"title": evil, "version": evil, "description": evil},
        "paths": {f"/{evil}": {"post": operation, "get": operation}},
    }
    page = render_docs(document, base_url=evil)
    assert "<script" not in page
    assert "alert('" not in page
