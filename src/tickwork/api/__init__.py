"""The HTTP API: routes, schemas of their bodies, and error responses.

Routes read and write JSON and call the verbs in `ops`. Every error becomes
`application/problem+json` with a stable code. Bodies are limited in size and depth before they are
parsed further. Each noun has its own module of routes.
"""

from tickwork.api.application import create_api

__all__ = ["create_api"]
