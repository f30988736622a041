"""Hostile requests for every route of an OpenAPI description, each of at most one megabyte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

BYTES_MAX = 990_000
"""Bytes of a body. The API takes 1,000,000."""

QUERY_BYTES_MAX = 60_000
"""Bytes of a query. The server takes headers of 64 kB."""

DEPTH = 400_000
WIDE_DIGITS = 4_000

LIST_ITEMS = 90_000
"""Items of a long list."""

LIST_DEPTH_MAX = 2
"""Names that lead to a list at most: those in a body, and in its objects."""

ITEMS = {
    "ids": "019b76daa80070008000000000000001",
    "days": "2027-12-24",
    "exclude": "2027-12-24",
    "owner_targets": "queue:reminders",
    "messages": {"body": 1},
    "items": {"body": 1},
    "acks": "1-019b76daa80070008000000000000001-1",
}
"""Items of lists that look valid, by the field."""

RARE_RULES = (
    "FREQ=MONTHLY;INTERVAL=7;BYSETPOS=366;BYDAY=MO,TU",
    "FREQ=YEARLY;COUNT=5000;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;INTERVAL=97;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=SECONDLY;INTERVAL=86399;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=3",
    "FREQ=DAILY;BYSETPOS=-1;BYHOUR=1,2,3;BYMINUTE=1,2,3;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU",
)
"""Rules whose slots are centuries apart, or that have none."""

Properties = Mapping[str, Mapping[str, Any]]


Make = Callable[[], bytes]


class Attack(NamedTuple):
    """A request: what it tries, its method, path, query and body. They are made when needed."""

    name: str
    method: str
    path: str
    query: Callable[[], str] = lambda: ""
    body: Make | None = None


class ListField(NamedTuple):
    """A field of a body that may be a list: the names that lead to it, an item that looks valid,
    and the numbers beside it, without which it may not be read."""

    names: tuple[str, ...]
    item: object
    beside: Mapping[str, int]


class Route(NamedTuple):
    """A route of the description."""

    method: str
    path: str
    queries: tuple[str, ...]
    properties: Properties
    has_body: bool
    lists: tuple[ListField, ...] = ()


def routes(document: Mapping[str, Any]) -> Iterator[Route]:
    """All routes."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {})
            schemas = [media["schema"] for media in content.values()]
            parameters = operation.get("parameters", ())
            queries = tuple(
                parameter["name"] for parameter in parameters if parameter["in"] == "query"
            )
            properties: dict[str, Any] = {}
            for schema in schemas:
                properties |= _properties(document, schema)
            lists = tuple(_lists(document, properties))
            yield Route(method.upper(), path, queries, properties, bool(content), lists)


def attacks(
    route: Route, known: Mapping[str, str], *, fields_alone: bool = False
) -> Iterator[Attack]:
    """Requests to a route whose path names what is `known`. With `fields_alone` also those that
    give one field at a time."""
    path = route.path
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", value)
    for name, query in _queries(route):
        yield Attack(f"query: {name}", route.method, path, query)
    if not route.has_body:
        return
    for name, body in _bodies(route.properties):
        yield Attack(name, route.method, path, body=body)
    for field in route.lists:
        name = f"a long list in {'.'.join(field.names)}"
        yield Attack(name, route.method, path, body=partial(_long_list, field))
    groups: list[tuple[str, ...]] = [tuple(route.properties)]
    if fields_alone:
        groups += [(name,) for name in route.properties]
    for name, value_of in VALUES.items():
        for fields in groups:
            shown = ",".join(fields) if len(fields) == 1 else "all fields"
            body = partial(_body_with, fields, value_of)
            yield Attack(f"{name} in {shown}", route.method, path, body=body)


def _body_with(fields: tuple[str, ...], value_of: Callable[[int], object]) -> bytes:
    size = BYTES_MAX // max(len(fields), 1) - 50
    return _encoded({field: value_of(size) for field in fields})


def _encoded(body: object) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(text) <= 1_000_000, len(text)
    return text


def _long_list(field: ListField) -> bytes:
    """A body whose only fault is the length of a list."""
    size = len(json.dumps(field.item)) + 1
    inner: object = [field.item] * min(LIST_ITEMS, (BYTES_MAX - 200) // size)
    for depth, name in enumerate(reversed(field.names)):
        inner = {name: inner} if depth else {**field.beside, name: inner}
    return _encoded(inner)


def _lists(
    document: Mapping[str, Any], properties: Properties, names: tuple[str, ...] = ()
) -> Iterator[ListField]:
    """The fields that may be lists, also in objects in the body."""
    whole = [name for name, schema in properties.items() if schema.get("type") == "integer"]
    for name, schema in properties.items():
        here = (*names, name)
        for choice in _choices(document, schema):
            if choice.get("type") == "array":
                item = _valid(document, name, choice.get("items", {}))
                yield ListField(here, item, dict.fromkeys(whole, 1))
        if len(here) < LIST_DEPTH_MAX:
            yield from _lists(document, _properties(document, schema), here)


def _valid(document: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> object:
    """An item of a list that looks valid."""
    if name in ITEMS:
        return ITEMS[name]
    (first, *_) = _choices(document, schema)
    if "enum" in first:
        return first["enum"][0]
    return {"integer": 1, "number": 1, "object": {}, "array": []}.get(first.get("type", ""), "a.b")


def _choices(document: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas that a value may have."""
    if "$ref" in schema:
        found: Any = document
        for step in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found[step]
        return _choices(document, found)
    inner = [one for kind in ("oneOf", "anyOf", "allOf") for one in schema.get(kind, ())]
    return [choice for one in inner for choice in _choices(document, one)] or [schema]


def _properties(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body, of all kinds that it may have."""
    fields: dict[str, Any] = {}
    for choice in _choices(document, schema):
        fields |= choice.get("properties", {})
    return fields


def _queries(route: Route) -> Iterator[tuple[str, Callable[[], str]]]:
    names = route.queries or ("limit", "cursor")
    size = QUERY_BYTES_MAX
    yield "look-alikes", lambda: _joined(lambda n: f"{names[n % len(names)]}{n:x}=", size)
    for name in names:
        yield f"long {name}", partial(_long, name)
    yield "repeated", lambda: _joined(lambda _: f"{names[0]}=1", size)
    yield "separators", lambda: "&" * size


def _long(name: str) -> str:
    return f"{name}={'9' * QUERY_BYTES_MAX}"


def _joined(part: Callable[[int], str], size: int) -> str:
    parts: list[str] = []
    total = 0
    while total < size:
        parts.append(part(len(parts)))
        total += len(parts[-1]) + 1
    return "&".join(parts[:-1])


def _bodies(properties: Properties) -> Iterator[tuple[str, Make]]:
    names = tuple(properties) or ("name",)

    def name(number: int) -> str:
        return names[number % len(names)]

    yield "deep lists", lambda: b"[" * DEPTH + b"]" * DEPTH
    yield "deep objects", lambda: b'{"a":' * (DEPTH // 4) + b"1" + b"}" * (DEPTH // 4)
    yield "unknown fields", lambda: _object(lambda n: f'"{n:x}":0')
    yield "look-alikes", lambda: _object(lambda n: f'"{name(n)}{n:x}":0')
    yield "long look-alikes", lambda: _object(lambda n: f'"{name(n) * 9}{n:x}":0')
    yield "duplicate keys", lambda: _object(lambda n: f'"{name(n)}":{n}')
    yield "unicode names", lambda: _object(lambda n: f'"{chr(0x1F600 + n % 70)}é{n:x}":0')
    yield "a list of numbers", lambda: _list(b"0")
    yield "a list of objects", lambda: _list(b"{}")
    yield "a thousand look-alikes", lambda: _list(_object(lambda n: f'"{name(n)}x":{n}', 900))
    yield "not closed", lambda: b'{"' + b"a" * BYTES_MAX
    yield "not UTF-8", lambda: b'{"a":"' + b"\xff" * BYTES_MAX + b'"}'
    yield "a wide number", lambda: b'{"a":' + b"9" * BYTES_MAX + b"}"
    yield "a wide fraction", lambda: b'{"a":0.' + b"9" * BYTES_MAX + b"}"
    yield "slow numbers", lambda: b'{"a":' + _list(b"1e308") + b"}"
    yield "halves", lambda: b'{"a":' + _list(b"1e23") + b"}"
    yield "long numbers", lambda: b'{"a":' + _list(b"9007199254740992.99999") + b"}"
    yield "a NUL among numbers", lambda: b'{"a":["\\u0000",' + _list(b"0")[1:] + b"}"
    yield "NUL below a long name", _nul_below
    yield "NUL in lists", lambda: b'["\\u0000",' + _list(b'["a"]')[1:350_000] + b"]"
    if "rrule" in properties:
        yield from _timings()


def _nul_below() -> bytes:
    return b'{"' + b"a" * 400_000 + b'":[' + b'"\\u0000",' * 50_000 + b"0]}"


def _timings() -> Iterator[tuple[str, Make]]:
    for index, rule in enumerate(RARE_RULES):
        yield f"rare rule {index}", partial(_encoded, {**SCHEDULE, "rrule": rule})
        yield f"rare rules {index}", partial(_rules, rule)
    yield "a long list of hours", lambda: _encoded({**SCHEDULE, "rrule": _rule("BYHOUR", 23)})
    yield "a long list of days", lambda: _encoded({**SCHEDULE, "rrule": _rule("BYMONTHDAY", 28)})
    yield "a long cron", lambda: _encoded({**CRON, "cron_expr": f"{'1,' * 400_000}1 * * * *"})
    yield "a cron of many fields", lambda: _encoded({**CRON, "cron_expr": "* " * 400_000})
    yield "days off", lambda: _encoded({**CRON, "exclude": _days(), "roll": "next_day"})
    wrong = [{**CRON, "cron_expr": f"{n} x"} for n in range(1_000)]
    yield "unreadable times", partial(_encoded, wrong)


SCHEDULE = {"start_at": "1971-01-01T00:00:00Z", "target": {"type": "queue", "queue": "q"}}
CRON = {"cron_expr": "0 0 29 2 1", "target": {"type": "queue", "queue": "q"}}


def _rules(rule: str) -> bytes:
    """A thousand schedules of a rule, all with other starts."""
    starts = (f"19{71 + n % 29}-01-01T00:{n % 60:02}:00Z" for n in range(1_000))
    return _encoded([{**SCHEDULE, "rrule": rule, "start_at": start} for start in starts])


def _rule(part: str, most: int) -> str:
    return f"FREQ=DAILY;{part}=" + ",".join(str(n % most + 1) for n in range(200_000))


def _days() -> list[str]:
    return [f"20{n // 336 % 70 + 27}-{n // 28 % 12 + 1:02}-{n % 28 + 1:02}" for n in range(23_000)]


def _object(part: Callable[[int], str], size: int = BYTES_MAX) -> bytes:
    return f"{{{_joined(part, size).replace('&', ',')}}}".encode()[:1_000_000]


def _list(item: bytes) -> bytes:
    return b"[" + b",".join([item] * (BYTES_MAX // (len(item) + 1))) + b"]"


VALUES: dict[str, Callable[[int], object]] = {
    "a long text": lambda size: "a" * size,
    "a long number in a text": lambda size: "9" * size,
    "spaces": lambda size: " " * size,
    "commas": lambda size: "," * size,
    "letters beyond ASCII": lambda size: "é" * (size // 2),
    "slashes": lambda size: "a/" * (size // 2),
    "a list of numbers": lambda size: [0] * (size // 2),
    "a list of texts": lambda size: [f"{n:x}" for n in range(size // 9)],
    "a list of objects": lambda size: [{}] * (size // 3),
    "a list of lists": lambda size: [[]] * (size // 3),
    "unknown names": lambda size: {f"{n:x}": 0 for n in range(size // 10)},
    "look-alikes": lambda size: {f"interval_{n:x}": 0 for n in range(size // 20)},
    "a wide number": lambda size: int("9" * min(size, WIDE_DIGITS)),
}
"""Values of fields, by the bytes that they may have."""
