"""The addresses that people try first: `/`, and the description of the interface as JSON."""

from __future__ import annotations

from typing import Any

from litestar import MediaType, Request, Response, get

from tickwork import __version__

# Pages carry their style with them and run no script.
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

_HOME = f"""<h1>Tickwork {__version__}</h1>
<p>The server is running. Where to look:</p>
<ul>
<li><a href="/docs">/docs</a>: what it can be asked</li>
<li><a href="/openapi.json">/openapi.json</a>: the same for programs</li>
<li><a href="/healthz">/healthz</a> and <a href="/readyz">/readyz</a>: for those who watch it</li>
</ul>
"""


def page(title: str, body: str) -> str:
    """A whole page; both texts are HTML already."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n'
        f"<body>\n{body}</body></html>\n"
    )


@get("/", include_in_schema=False, media_type=MediaType.HTML, sync_to_thread=False)
def home() -> Response[str]:
    """Says where to look."""
    return Response(page("Tickwork", _HOME), headers=PAGE_HEADERS)


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def openapi_json(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """The OpenAPI description."""
    return request.app.openapi_schema.to_schema()
