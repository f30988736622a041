"""Serves `/docs`, the OpenAPI description as one HTML page, and `/openapi.json`.

Litestar's renderers load scripts from a CDN and show an empty page without internet access. This
page is plain HTML and needs neither network nor scripts. Contract: every text of the description is
escaped; every operation is shown with its fields, its examples as curl commands, and its responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.openapi.plugins import OpenAPIRenderPlugin
from litestar.serialization import encode_json

from tickwork.api.compress import MadeOnce
from tickwork.api.query import refuse_unknown_parameters

# Pages have inline styles and no scripts.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre,code{font:14px/1.4 ui-monospace,monospace}"
    "pre{overflow-x:auto;padding:.75rem;border:1px solid #8886;border-radius:4px}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;"
    "border-bottom:1px solid #8884}"
    "section{border-top:2px solid #8886;margin-top:2.5rem}"
    "h2 code{font-size:1.1rem}summary{cursor:pointer;margin:.5rem 0}"
)


def page(title: str, body: str) -> str:
    """Returns a complete page; both arguments are HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}</body></html>\n"
    )


URL_VARIABLE = '"$TICKWORK_URL"'
"""Stands for the URL of the server in curl commands: the page is the same for all callers."""


class Documentation(NamedTuple):
    """The description as JSON, and as a page."""

    description: MadeOnce
    page: MadeOnce


def documentation(api: Litestar) -> Documentation:
    """The documentation of an application; it is made when it is asked for."""

    def describe() -> bytes:
        return encode_json(api.openapi_schema.to_schema())

    def render() -> bytes:
        return render_docs(api.openapi_schema.to_schema(), base_url=URL_VARIABLE).encode()

    return Documentation(
        MadeOnce(describe, "application/json"), MadeOnce(render, "text/html", PAGE_HEADERS)
    )


@get("/openapi.json", opt={"permission": "open"}, include_in_schema=False)
async def openapi_json(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Serves the OpenAPI description."""
    return await _documentation(request).description.answer(request)


async def serve_docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Serves the page, and the description below it; raises `NotFoundException` for other paths."""
    await refuse_unknown_parameters(request)
    match request.scope["path"].rstrip("/"):
        case "/docs":
            return await _documentation(request).page.answer(request)
        case "/docs/openapi.json":
            return await _documentation(request).description.answer(request)
        case _:
            raise NotFoundException


def _documentation(request: Request[Any, Any, Any]) -> Documentation:
    made: Documentation = request.app.state.documentation
    return made


Node = Mapping[str, Any]

_METHODS = ("get", "post", "put", "patch", "delete")
_TYPE_DEPTH_MAX = 4


class DocsPage(OpenAPIRenderPlugin):
    """Gives Litestar a page at `/docs`. `serve_docs` answers before it is rendered."""

    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        return render_docs(openapi_schema, base_url=URL_VARIABLE).encode()


def render_docs(document: Node, *, base_url: str) -> str:
    """Renders an OpenAPI description; the curl commands in it use `base_url`."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    operations = [
        (method, path, item[method])
        for path, item in document.get("paths", {}).items()
        for method in _METHODS
        if method in item
    ]
    parts = [f"<h1>{title}</h1>", _prose(info.get("description")), "<ul>"]
    parts += [
        f'<li><a href="#{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code></a> '
        f"{escape(operation.get('summary', ''))}</li>"
        for method, path, operation in operations
    ]
    parts.append("</ul>")
    for method, path, operation in operations:
        parts += _operation(document, method, path, operation, base_url)
    return page(title, "\n".join(parts))


def _operation(
    document: Node, method: str, path: str, operation: Node, base_url: str
) -> Iterator[str]:
    yield f'<section id="{_anchor(method, path)}">'
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    yield f"<p><strong>{escape(operation.get('summary', ''))}</strong></p>"
    yield _prose(operation.get("description"))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(document, content["schema"])
        yield "<h3>Body</h3>"
        yield _prose(content["schema"].get("description"))
        yield from _fields(document, schema)
        for example in _examples(document, content):
            yield _command(method, f"{base_url}{path}", example)
    if "requestBody" not in operation:
        yield _command(method, f"{base_url}{path}", None)
    yield "<h3>Responses</h3>"
    for status, response in sorted(operation.get("responses", {}).items()):
        yield from _response(document, status, response)
    yield "</section>"


def _response(document: Node, status: str, response: Node) -> Iterator[str]:
    yield f"<details><summary><code>{escape(status)}</code> "
    yield f"{escape(response.get('description', ''))}</summary>"
    for media_type, content in response.get("content", {}).items():
        yield f"<p><code>{escape(media_type)}</code></p>"
        yield from _fields(document, _resolved(document, content["schema"]))
        for example in _examples(document, content):
            yield f"<pre>{escape(_json(example, indent=2))}</pre>"
    yield "</details>"


def _fields(document: Node, schema: Node) -> Iterator[str]:
    properties = schema.get("properties", {})
    if not properties:
        return
    yield "<table><tr><th>field</th><th>type</th><th>meaning</th></tr>"
    for name, field in properties.items():
        texts = [_resolved(document, field).get("description") or field.get("description") or ""]
        if (default := field.get("default")) is not None:
            texts.append(f"Default: {_json(default)}.")
        meaning, kind = " ".join(texts).strip(), _type(document, field)
        yield f"<tr><td><code>{escape(name)}</code></td>"
        yield f"<td>{escape(kind)}</td><td>{escape(meaning)}</td></tr>"
    yield "</table>"


def _type(document: Node, schema: Node, depth: int = 0) -> str:
    """Describes the type of a schema on one line."""
    schema = _resolved(document, schema)
    if depth > _TYPE_DEPTH_MAX:
        return "…"
    if "enum" in schema:
        return " | ".join(_json(value) for value in schema["enum"] if value is not None)
    if "const" in schema:
        return _json(schema["const"])
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            types = [_type(document, part, depth + 1) for part in schema[choice]]
            return " | ".join(kind for kind in types if kind != "null")
    if "properties" in schema:
        inner = (
            f"{name}: {_type(document, field, depth + 1)}"
            for name, field in schema["properties"].items()
        )
        return f"{{{', '.join(inner)}}}"
    if "items" in schema:
        return f"list of {_type(document, schema['items'], depth + 1)}"
    kind = schema.get("type", "any")
    name = " | ".join(kind) if isinstance(kind, list) else str(kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name} {low:g} to {high:g}"
    return f"{name} from {low:g}" if low is not None else name


def _resolved(document: Node, schema: Node) -> Node:
    """Follows a `$ref`, also one inside an `allOf` that only adds a description."""
    only = schema.get("allOf", ())
    reference = (only[0] if len(only) == 1 else schema).get("$ref")
    if reference is None:
        return schema
    found: Any = document
    for step in str(reference).removeprefix("#/").split("/"):
        found = found[step]
    return found if isinstance(found, Mapping) else {}


def _examples(document: Node, content: Node) -> Iterator[object]:
    """Yields the examples of a body, from its content or from its schema."""
    named = content.get("examples")
    if isinstance(named, Mapping):
        yield from (example["value"] for example in named.values() if "value" in example)
        return
    schema = content["schema"]
    yield from schema.get("examples") or _resolved(document, schema).get("examples") or ()


def _command(method: str, url: str, body: object) -> str:
    words = ["curl", url]
    if body is not None:
        text = _json(body, indent=0).replace("'", "\\u0027")
        words = ["curl", url, "-H 'Content-Type: application/json'", f"-d '{text}'"]
    elif method != "get":
        words = ["curl", f"-X {method.upper()}", url]
    return f"<pre>{escape(' '.join(words))}</pre>"


def _json(value: object, *, indent: int = 0) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()


def _prose(text: str | None) -> str:
    paragraphs = (text or "").split("\n\n")
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph.strip())


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}{path.replace('/', '-').replace('{', '').replace('}', '')}")
