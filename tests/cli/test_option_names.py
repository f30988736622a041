"""An option that gives a field of the API has the name of the field, with dashes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.test_every_command import EVERY
from tests.kit.api import api_client
from tickwork import clock

REPEATABLE = {
    "--check": "checks", "--header": "headers", "--id": "ids", "--owner-target": "owner_targets",
    "--scope": "scopes", "--secret-header": "secret_headers", "--type": "types",
}  # fmt: skip
"""Options that are given once for each value of a field with several."""

SHORTER = {
    "--dst-gap": "dst.gap, which is in another field",
    "--dst-overlap": "dst.overlap, which is in another field",
    "--message-type": "target.message_type, which is in another field",
    "--no-limit": "limit: null",
    "--no-push": "push_to: null",
    "--no-types": "types: []",
    "--failed": "status: failed, the other one of two",
    "--undelivered": "a filter for two values of status",
    "--seconds": "of `late`, which no route has",
    "--hours": "hours of a forecast, which the server gives by another name",
}
"""Options that stand for a value of a field, with the reason."""

OF_COMMANDS = {
    "--all-tenants", "--api-key", "--app", "--csv", "--database", "--delete", "--dry-run",
    "--every", "--fields", "--file", "--force", "--forward", "--json", "--lost-key", "--reset",
    "--rotate", "--secret", "--server", "--shared", "--skip-refused", "--system", "--tenant",
    "--thaw", "--tonight", "--watch", "--yes",
}  # fmt: skip
"""What only a command has: where it works, what it prints, and shortcuts."""

WITHOUT_ROUTE = {"run", "up", "config show", "listen", "alerts set", "what-if"}
"""Commands whose options are settings of a process, or that no route corresponds to."""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The API, as OpenAPI describes it."""
    with api_client(tmp_path_factory.mktemp("api"), now=clock.now) as started:
        return started.get("/openapi.json").json()


def fields_of(described: Any) -> Iterator[str]:
    """The names of all fields and parameters of an OpenAPI document."""
    if isinstance(described, dict):
        yield from described.get("properties", {})
        if "in" in described and "name" in described:
            yield described["name"]
        for part in described.values():
            yield from fields_of(part)
    elif isinstance(described, list):
        for part in described:
            yield from fields_of(part)


def test_an_option_has_the_name_of_its_field(described: Any) -> None:
    fields = {*fields_of(described)}
    assert {"rate_per_second", "min_interval_seconds", "limit"} <= fields
    known = {f"--{field.replace('_', '-')}" for field in fields} | OF_COMMANDS
    known |= REPEATABLE.keys() | SHORTER.keys()
    unknown = {
        f"{name} {option}"
        for name, command in EVERY.items()
        if name not in WITHOUT_ROUTE
        for param in command.params
        if param.param_type_name == "option"
        for option in param.opts
        if option not in known
    }
    assert sorted(unknown) == [], "name the option as its field, with dashes"


def test_every_exception_to_the_names_is_an_option_of_a_command() -> None:
    given = {
        option for command in EVERY.values() for param in command.params for option in param.opts
    }
    assert (REPEATABLE.keys() | SHORTER.keys() | OF_COMMANDS) - given == set()


def test_no_option_has_two_names() -> None:
    twice = {
        f"{name} {param.opts}"
        for name, command in EVERY.items()
        for param in command.params
        if param.param_type_name == "option" and len(param.opts) > 1
    }
    assert not twice


def test_a_maximum_number_is_called_limit(described: Any) -> None:
    asked = {
        f"{method} {path} {parameter['name']}"
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", ())
        if parameter["name"] in ("count", "max", "number", "page_size", "size")
    }
    assert not asked


def test_a_limit_is_a_name_only_where_its_field_is(described: Any) -> None:
    named = {
        name
        for name, command in EVERY.items()
        for param in command.params
        if "--limit" in param.opts and param.metavar != "N"
    }
    assert named == {"queues create", "queues update", "endpoints create", "endpoints update"}
    for body in ("QueueOptions", "NewEndpoint", "EndpointFields"):
        field = described["components"]["schemas"][body]["properties"]["limit"]
        assert {kind["type"] for kind in field["oneOf"]} == {"string", "null"}, body
