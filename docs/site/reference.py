"""Writes the reference from the code: HTTP, command line, Python, settings, errors, metrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import SimpleNamespace as Namespace
from typing import Any

from tickwork import errors, settings


def reference_pages() -> dict[str, str]:
    """The text of each page by its name."""
    makers: dict[str, Callable[[], Iterable[str]]] = {
        "http": http_lines,
        "command-line": command_lines,
        "python": python_lines,
        "settings": setting_lines,
        "errors": error_lines,
        "metrics": metric_lines,
    }
    return {name: "\n".join(lines()) + "\n" for name, lines in makers.items()}


def _table(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    columns = [*heading]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


# HTTP

_SEVERAL = ("oneOf", "anyOf", "allOf")


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI document of the server."""
    from tickwork.wiring.server import build_api

    schema: dict[str, Any] = build_api(settings.Settings()).openapi_schema.to_schema()
    return schema


def http_lines() -> Iterator[str]:
    document = openapi()
    yield "# HTTP reference"
    yield ""
    yield "Made from the OpenAPI document, which a running server has at `/openapi.json`."
    yield "[HTTP](../http.md) is a walk through the API."
    groups: dict[str, list[str]] = {}
    for path, item in sorted(document["paths"].items()):
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete"):
                tag = (operation.get("tags") or ["Other"])[0]
                groups.setdefault(tag, []).extend(
                    _operation(document, f"{method.upper()} {path}", operation)
                )
    for tag, lines in sorted(groups.items()):
        yield from ("", f"## {tag}", *lines)


def _operation(document: Mapping[str, Any], name: str, operation: Mapping[str, Any]) -> list[str]:
    lines = ["", f"### `{name}`", "", operation.get("summary") or ""]
    if operation.get("description"):
        lines += ["", operation["description"]]
    parameters = operation.get("parameters", [])
    rows: list[tuple[str, ...]] = [
        (
            f"`{parameter['name']}`",
            parameter["in"],
            _type(parameter.get("schema", {})),
            parameter.get("description", ""),
        )
        for parameter in parameters
    ]
    body = operation.get("requestBody", {}).get("content", {})
    for content in body.values():
        rows += _fields(document, content.get("schema", {}))
    if rows:
        lines += ["", *_table(("field", "in", "type", "meaning"), rows)]
    answers = [
        f"{code} {answer.get('description', '').rstrip('.')}"
        for code, answer in sorted(operation.get("responses", {}).items())
    ]
    return [*lines, "", f"Answers: {'; '.join(answers)}."]


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    schema = _resolve(document, schema)
    for part in [schema, *(inner for kind in _SEVERAL for inner in schema.get(kind, []))]:
        whole = _resolve(document, part)
        required = whole.get("required", ())
        for name, value in whole.get("properties", {}).items():
            where = "body, required" if name in required else "body"
            yield f"`{name}`", where, _type(value), value.get("description", "")


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rsplit("/", 1)[1]
    found: Mapping[str, Any] = document["components"]["schemas"][name]
    return found


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    several = schema.get("oneOf") or schema.get("anyOf")
    if several:
        return " or ".join(dict.fromkeys(map(_type, several)))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


# Command line


def command_lines() -> Iterator[str]:

    from tickwork.cli import app

    yield "# Command line reference"
    yield ""
    yield "Every command has `--help`, and `--json` where it prints data."
    yield "Exit codes: 0 success, 1 failure, 2 bad usage."
    yield from _commands("tickwork", app, depth=2)


def _commands(words: str, command: Any, *, depth: int) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if words != "tickwork":
        yield from ("", f"{'#' * min(depth, 4)} `{words}`", "", _dedented(command.help or ""))
    if not children:
        arguments, options = _params(command)
        if arguments:
            yield from ("", *_table(("argument", "meaning"), arguments))
        if options:
            yield from ("", *_table(("option", "meaning"), options))
    for name, child in children.items():
        yield from _commands(f"{words} {name}", child, depth=depth + (words != "tickwork"))


def _params(command: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    arguments, options = [], []
    for param in command.params:
        if param.param_type_name == "argument":
            arguments.append((f"`{param.metavar or param.name.upper()}`", param.help or ""))
        elif "--help" not in param.opts:
            value = "" if param.is_flag or not param.metavar else f" {param.metavar}"
            options.append((f"`{', '.join(param.opts)}{value}`", param.help or ""))
    return arguments, options


def _dedented(text: str) -> str:
    return inspect.cleandoc(text)


# Python


def python_lines() -> Iterator[str]:
    yield "# Python reference"
    yield ""
    yield "The public names of `tickwork` and `tickwork.testing`, with their signatures."
    import tickwork.testing

    for module in (tickwork, tickwork.testing):
        yield from ("", f"## `{module.__name__}`")
        for name in sorted(module.__all__):
            if not name.startswith("__"):
                yield from _described(f"{name}", getattr(module, name))
    yield from ("", "## Parts of the app")
    app = tickwork.Tickwork("sqlite:///tickwork.db")
    for name, part in sorted(vars(app).items()):
        if not name.startswith("_"):
            yield from _described(f"app.{name}", type(part))


def _described(name: str, found: Any) -> Iterator[str]:
    yield from ("", f"### `{name}`", "")
    if callable(found) and not _is_error(found) and not name.startswith("app."):
        yield from ("```python", f"{name}{_signature(found)}", "```", "")
    yield _doc(found)
    if inspect.isclass(found) and not _is_error(found):
        yield from _members(found)


def _is_error(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, BaseException)


def _members(found: type) -> Iterator[str]:
    rows = []
    for name, member in inspect.getmembers(found):
        if name.startswith("_") or not _is_ours(member):
            continue
        if isinstance(member, property):
            rows.append((f"`{name}`", _first_paragraph(member)))
        elif inspect.isfunction(member):
            word = "await " if inspect.iscoroutinefunction(member) else ""
            rows.append((f"`{word}{name}{_signature(member)}`", _first_paragraph(member)))
    if rows:
        yield from ("", *_table(("member", "meaning"), rows))


def _is_ours(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else member
    return str(getattr(function, "__module__", "")).startswith("tickwork")


def _signature(found: Any) -> str:
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return "(…)"
    packages = "tickwork|collections|typing|datetime|uuid|pathlib"
    text = re.sub(rf"\b(?:{packages})(?:\.\w+)*\.(?=\w)", "", text)
    text = re.sub(r"<object object at 0x[0-9a-f]+>|<[\w.]+ object at 0x[0-9a-f]+>", "…", text)
    return text.replace("'", "").replace("(self, ", "(").replace("(self)", "()")


def _doc(found: Any) -> str:
    return inspect.getdoc(found) or ""


def _first_paragraph(found: Any) -> str:
    return " ".join(_doc(found).split("\n\n")[0].split())


# Settings, errors, metrics


def setting_lines() -> Iterator[str]:
    yield "# Settings reference"
    yield ""
    yield "A flag wins over the environment, the environment over the section `[server]` of"
    yield "`tickwork.toml` in the current folder, and the file over the default."
    yield "`tickwork config show` says where each value comes from."
    yield ""
    defaults = settings.Settings()
    flags = {
        found[1].replace("-", "_"): found[0]
        for found in re.finditer(r"--([\w-]+)", settings.__doc__ or "")
    }
    rows = []
    for name in settings.Settings.__struct_fields__:
        if name == settings.JWT_SECTION:
            continue
        value = getattr(defaults, name)
        shown = ",".join(sorted(value)) if isinstance(value, frozenset | tuple) else value
        default = "" if shown in (None, "") else f"`{shown}`"
        variable = f"`{settings.VARIABLES}{name.upper()}`"
        rows.append((f"`{name}`", f"`{flags[name]}`" if name in flags else "", variable, default))
    yield from _table(("`[server]`", "flag", "environment", "default"), rows)
    yield ""
    yield "The issuers whose JWTs the API accepts are entries `[[jwt]]`: see"
    yield "[JWTs](../access.md#jwts). The rest of the file is the [topology](../topology.md)."


def error_lines() -> Iterator[str]:
    yield "# Errors reference"
    yield ""
    yield "All errors are subclasses of `tickwork.TickworkError`. A code never changes its meaning."
    yield "Over HTTP an error is `application/problem+json` with the same code."
    yield ""
    rows = [
        (f"`{error.__name__}`", f"`{error.code}`", _first_paragraph(error))
        for error in all_errors()
    ]
    yield from _table(("error", "code", "meaning"), rows)


def all_errors() -> list[type[errors.TickworkError]]:
    """Every error class, in the order of the module."""
    return [
        value
        for name, value in vars(errors).items()
        if inspect.isclass(value)
        and issubclass(value, errors.TickworkError)
        and not name.startswith("_")
    ]


def metric_lines() -> Iterator[str]:
    yield "# Metrics reference"
    yield ""
    yield "What `/metrics` serves, apart from the `process_*` and `python_*` metrics of the client"
    yield "library. How to read them: [metrics](../logs-and-metrics.md#metrics)."
    yield ""
    rows = [(f"`{name}`", kind, meaning) for name, kind, meaning in metrics()]
    yield from _table(("metric", "kind", "meaning"), rows)


def metrics() -> list[tuple[str, str, str]]:
    """Name, kind and meaning of each metric, as Prometheus sees it."""
    from tickwork.service.observe import ClockOffset
    from tickwork.service.observe.metrics import WorkerMetrics
    from tickwork.service.observe.schedule_metrics import ScheduleMetrics

    worker = WorkerMetrics(ClockOffset())
    isolator: Any = Namespace(abandoned=Namespace(total=0), processes=Namespace(killed=0))
    watchdog: Any = Namespace(blocked_seconds=lambda: 0.0, times_blocked=0)
    worker.watch((), isolator, watchdog)
    found = []
    for family in (*worker.collect(), *ScheduleMetrics().collect()):
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        found.append((family.name + suffix, family.type, family.documentation))
    return sorted(found)
