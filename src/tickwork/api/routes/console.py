"""Serves the console: one page at `/` and `/console/…`, and its assets.

`make console` builds it into `console_build/`, and the wheel contains the build. Without a build
the page says how to make one. Names of assets contain a hash of their content, so browsers keep
them.
"""

from __future__ import annotations

from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from tickwork import __version__
from tickwork.api.routes.docs import PAGE_HEADERS, page

BUILD = Path(__file__).resolve().parents[1] / "console_build"


def is_built() -> bool:
    """Whether this package contains the console."""
    return (BUILD / "index.html").exists()


CONSOLE_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}

_NOT_BUILT = f"""<h1>Tickwork {__version__}</h1>
<p>The server is running. Its console is not built: run <code>make console</code> in the checkout
and start the server again. An installed wheel contains the console.</p>
<ul>
<li><a href="/docs">/docs</a>: API documentation</li>
<li><a href="/openapi.json">/openapi.json</a>: OpenAPI description</li>
<li><a href="/healthz">/healthz</a> and <a href="/readyz">/readyz</a>: health checks</li>
</ul>
"""


async def _allow_parameters(_: Request[Any, Any, Any]) -> None:
    """The query of a page is its state, which the page itself reads."""


_OPEN: dict[str, Any] = {
    "opt": {"permission": "open"},
    "include_in_schema": False,
    "sync_to_thread": False,
}


@get(
    ["/", "/console", "/console/{place:path}"],
    media_type=MediaType.HTML,
    before_request=_allow_parameters,
    **_OPEN,
)
def console_page() -> Response[bytes] | Response[str]:
    """Serves the page; its script decides by the path what to show."""
    index = _file("index.html")
    if index is None:
        return Response(page("Tickwork", _NOT_BUILT), headers=PAGE_HEADERS)
    return Response(index, headers=CONSOLE_HEADERS)


@get("/console/assets/{file_name:str}", **_OPEN)
def console_asset(file_name: FromPath[str]) -> Response[bytes]:
    """Serves a script, stylesheet or picture of the page."""
    content = _file(f"assets/{file_name}")
    if content is None:
        raise NotFoundException
    media_type = guess_type(file_name)[0] or "application/octet-stream"
    return Response(content, media_type=media_type, headers=CONSOLE_HEADERS | _KEPT)


def _file(name: str) -> bytes | None:
    return _build().get(name)


@cache
def _build() -> dict[str, bytes]:
    """The files of the build by their path; they are read once."""
    return {
        path.relative_to(BUILD).as_posix(): path.read_bytes()
        for path in sorted(BUILD.glob("**/*"))
        if path.is_file()
    }
