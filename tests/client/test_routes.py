"""Every route of the API has a verb, and every answer its fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from unittest.mock import MagicMock

import pytest

import tickwork.core.answers
from tests.kit.api import outside_of
from tickwork import clock
from tickwork.api import create_api
from tickwork.client import access, answers, batches, client, deliveries, queues, runs
from tickwork.client import operations as operation_nouns
from tickwork.client import schedules as schedule_nouns
from tickwork.client.call import Call, Listed, Noun, Verb, as_plan
from tickwork.core import when
from tickwork.core.delivery.callback import _PREFIX
from tickwork.errors import NotFound

WITHOUT_VERB = {
    "merge_schedule": "PUT merges as PATCH does",
    "stream": "Client.stream is no single call",
}
"""Operations that no verb calls, and why."""

ANSWERS = [
    module.name
    for module in iter_modules(tickwork.core.answers.__path__, f"{tickwork.core.answers.__name__}.")
]

OTHER_NAMES = {"api_schemas_Health": "HealthAnswer", "SentEvent": "", "Health": ""}
MODULES = (access, batches, client, deliveries, operation_nouns, queues, runs, schedule_nouns)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    async def no_store() -> Any:
        raise AssertionError

    api = create_api(
        now=clock.now,
        limits=when.Limits(),
        open_store=no_store,
        outside=outside_of("sqlite:///:memory:"),
    )
    described: dict[str, Any] = api.openapi_schema.to_schema()
    return described


def nouns() -> list[type[Any]]:
    found = {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Noun)
    }
    return sorted(found - {Noun}, key=lambda noun: noun.__name__)


def verbs() -> Iterator[tuple[str, Any, Any]]:
    for noun in nouns():
        for name, found in vars(noun).items():
            if isinstance(found, Verb | Listed):
                yield f"{noun.__name__}.{name}", noun, found


def argument(parameter: inspect.Parameter) -> Any:
    kind = str(parameter.annotation)
    if parameter.name == "token":
        return _PREFIX + "A" * 64 + "ZGVmYXVsdA"  # Of the tenant default.
    if kind.startswith("float"):
        return 1.0
    if kind.startswith(("Sequence", "Iterable")):
        return ["a"]
    return datetime(2027, 1, 1, tzinfo=UTC) if kind.startswith("datetime") else "a"


def calls(noun: Any, found: Any, **more: Any) -> Iterator[Call[Any]]:
    """The calls of a verb, for whatever the server answers."""
    function = found._function
    subject = noun.__new__(noun)
    vars(subject).update(name="a", id="a", _tenant="a", _runner=MagicMock())
    parameters = [*inspect.signature(function).parameters.values()][1:]
    required = {
        parameter.name: argument(parameter)
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    for reply in (MagicMock(next_cursor=None), NotFound("thing", "a")):
        result = function(subject, **required, **more)
        plan = result.page(None, 1) if isinstance(found, Listed) else as_plan(result)
        try:
            call: Any = next(plan)
            while True:
                yield call
                call = plan.throw(reply) if isinstance(reply, NotFound) else plan.send(reply)
                if not isinstance(call, Call):
                    break
        except (StopIteration, NotFound, TypeError, AttributeError):
            continue


@cache
def every_call() -> list[tuple[str, Call[Any]]]:
    return [*_calls_of_all_verbs()]


def _calls_of_all_verbs() -> Iterator[tuple[str, Call[Any]]]:
    for name, noun, found in verbs():
        for call in calls(noun, found):
            yield name, call
    for call in calls(queues.Messages, vars(queues.Messages)["get"], queue="q"):
        yield "Messages.get", call
    letters = vars(batches.DeadLetters)["list"]
    for call in calls(batches.DeadLetters, letters, queue="q"):
        yield "DeadLetters.list", call
    for call in calls(
        schedule_nouns.Schedules, vars(schedule_nouns.Schedules)["upcoming"], reference="a"
    ):
        yield "Schedules.upcoming", call
    pieces = batches.make_batch("q", [1] * (batches.PIECE_ITEMS_MAX + 1), None, {})
    try:
        piece: Any = next(pieces)
        while isinstance(piece, Call):
            yield "Verbs.batch", piece
            piece = pieces.send(MagicMock(id="a"))
    except StopIteration:
        pass


def operations(description: dict[str, Any]) -> dict[str, tuple[str, re.Pattern[str]]]:
    return {
        operation["operationId"]: (method.upper(), _pattern(path))
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(
        "".join(
            "[^/]+" if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", path)
        )
    )


def test_every_operation_has_a_verb(description: dict[str, Any]) -> None:
    """An operation that is new needs a verb, or a reason in WITHOUT_VERB."""
    made = {(call.method, call.path) for _, call in every_call()}
    missing = [
        name
        for name, (method, pattern) in operations(description).items()
        if not any(method == m and pattern.fullmatch(path) for m, path in made)
    ]
    assert sorted(missing) == sorted(WITHOUT_VERB)


def test_every_verb_calls_an_operation(description: dict[str, Any]) -> None:
    known = operations(description).values()
    unknown = [
        (name, call.method, call.path)
        for name, call in every_call()
        if not any(call.method == m and pattern.fullmatch(call.path) for m, pattern in known)
    ]
    assert unknown == []


def test_answers_have_the_fields_of_the_description(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    modules = [answers, *map(import_module, ANSWERS)]
    known = {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if hasattr(kind, "__struct_fields__") and kind.__module__ == module.__name__
    }
    compared = []
    for name, schema in schemas.items():
        own = OTHER_NAMES.get(name, name)
        kind = known.get(own)
        if kind is None:
            continue
        assert {*kind.__struct_encode_fields__} == {*schema["properties"]}, name
        compared.append(name)
    assert len(compared) > 25


def test_every_operation_that_honours_a_key_gets_one(description: dict[str, Any]) -> None:
    """A request that creates something can be repeated after a lost answer."""
    honours = {
        operation["operationId"]
        for methods in description["paths"].values()
        for operation in methods.values()
        if any(
            parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ())
        )
    }
    known = operations(description)
    keyed = {
        name
        for name, (method, pattern) in known.items()
        for _, call in every_call()
        if call.repeat.value == "keyed" and call.method == method and pattern.fullmatch(call.path)
    }
    assert keyed == honours


def test_every_verb_says_what_it_does() -> None:
    assert [name for name, _, found in verbs() if not found.__doc__] == []
