"""The HTTP interface: routes, what their bodies look like, and how errors are said.

Routes read and write JSON and leave the rest to `ops`. Every error, whoever raised it, leaves
as `application/problem+json` with a stable code; every body is bounded in size and depth
before anything looks at it. One file of routes per noun.
"""

from tickwork.api.application import create_api

__all__ = ["create_api"]
