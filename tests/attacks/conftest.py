"""Clients of the API on a store of each kind."""

from tests.api.conftest import http, reused_api

__all__ = ["http", "reused_api"]
