"""ETags: a name of the version of something, and `If-Match`, by which a caller changes only the
version that it has read."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Annotated, TypeVar

import msgspec
from litestar import Response
from litestar.params import HeaderParameter

from tickwork.core.answers.ids import plain_id
from tickwork.errors import PreconditionFailed

T = TypeVar("T")

_VERSION = re.compile(r'(?:W/)?"v(\d{1,18})"')

IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        description="The ETag that you have read: change only that version, else answer 412.",
    ),
]


IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-None-Match",
        description="`*`: create it; if it exists already, change nothing and answer 412.",
    ),
]


def etag_of(*parts: object) -> str:
    """The ETag of something that has these parts."""
    digest = blake2b(
        msgspec.json.encode(parts, enc_hook=plain_id, order="sorted"), digest_size=12
    ).hexdigest()
    return f'"{digest}"'


def check_match(if_match: str | None, etag: str, kind: str, name: object) -> None:
    """Raises `PreconditionFailed` if the caller wants to change another version."""
    if if_match is None or if_match.strip() == "*":
        return
    given = [part.strip().removeprefix("W/") for part in if_match.split(",")]
    if etag not in given:
        raise PreconditionFailed(kind, name)


def check_none_match(if_none_match: str | None, etag: str | None, kind: str, name: object) -> None:
    """Raises `PreconditionFailed` if the caller wants to create something that exists, or to change
    any version but this one. `etag` is None if there is none."""
    if if_none_match is None or etag is None:
        return
    given = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    if given == ["*"] or etag in given:
        raise PreconditionFailed(kind, name, "exists already; nothing was changed")


def version_etag(version: int) -> str:
    """The ETag of something whose versions are numbered."""
    return f'"v{version}"'


def read_version(if_match: str | None, kind: str, name: object) -> int | None:
    """The numbered version that a caller wants to change; None if any. Raises `PreconditionFailed`
    if it is no such version."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _VERSION.fullmatch(if_match.strip())
    if found is None:
        raise PreconditionFailed(kind, name)
    return int(found[1])


def with_etag(body: T, etag: str, status_code: int = 200) -> Response[T]:
    """A response with its ETag."""
    return Response(body, status_code=status_code, headers={"ETag": etag})
