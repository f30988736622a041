"""Gives every request an id: the caller's `X-Request-Id`, or a new one. The response has it too,
and so has every log line about the request."""

from __future__ import annotations

import re
from itertools import count
from secrets import token_hex
from typing import Any

from litestar.datastructures import Headers
from litestar.types import Scope

HEADER = "X-Request-Id"

_USABLE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,120}")
_NAME = "tickwork_request_id"
_PREFIX = f"req_{token_hex(8)}"
_numbers = count()
"""Ids distinguish requests; they are no secrets. Random bytes for each would cost a system call."""


def request_id_of(scope: Scope) -> str:
    """The id of a request. An id that is too long or has odd characters is replaced."""
    kept: Any = scope
    if _NAME not in kept:
        given = Headers.from_scope(scope).get(HEADER, "")
        kept[_NAME] = given if _USABLE.fullmatch(given) else f"{_PREFIX}{next(_numbers):08x}"
    request_id: str = kept[_NAME]
    return request_id
