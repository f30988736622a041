"""Declares a route in one line: its method and path, what it does, and the permission it needs.

```
routes = Routes("queues")

@routes.get("/v1/queues", "List queues", needs=Permission.READ)
async def list_queues(…) -> Page[QueueAnswer]:
```

The name of the function is the route's `operationId`, its docstring the description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import (
    Annotated,
    Any,
    Literal,
    Required,
    TypeAlias,
    TypedDict,
    Unpack,
    get_args,
    get_origin,
    is_typeddict,
)

from litestar.connection import ASGIConnection
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from msgspec import UNSET, Meta, Struct, defstruct

from tickwork.api.access import SECURITY_SCHEME
from tickwork.api.bodies import Documented
from tickwork.api.problems import described
from tickwork.core.access import Permission
from tickwork.core.options.declared import DeclaredField, fields_of
from tickwork.errors import NotFound
from tickwork.ops.context import Context
from tickwork.ops.queues import with_nearest

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Declare: TypeAlias = Callable[[Callable[..., Any]], HTTPRouteHandler]


class _Route(HTTPRouteHandler):
    """A route that gives its guards itself. Litestar gives them a copy for each request, which
    takes longer than our guard."""

    async def authorize_connection(self, connection: ASGIConnection[Any, Any, Any, Any]) -> None:
        for guard in self.resolve_guards():
            await guard(connection, self)  # type: ignore[misc]


class Traits(TypedDict, total=False):
    """What a route says of itself. `body` documents the JSON object that it takes. With
    `is_for_owners` it is also for callers who are bound to an owner. `problems` are statuses
    besides the usual ones. With `created` it answers 201 with that if it made something new."""

    needs: Required[Permission]
    tag: str
    status: int
    body: type[Any] | None
    is_for_owners: bool
    problems: tuple[int, ...]
    answer: ResponseSpec | None
    created: type[Any] | None


class Routes:
    """The routes of a noun, in the order of their declarations. The documentation has them under
    the `tag`, unless a route has another one."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._handlers = list[HTTPRouteHandler]()

    def __iter__(self) -> Iterator[HTTPRouteHandler]:
        return iter(self._handlers)

    def get(self, path: str, summary: str, **traits: Unpack[Traits]) -> Declare:
        return self._declare("GET", path, summary, **traits)

    def post(self, path: str, summary: str, **traits: Unpack[Traits]) -> Declare:
        return self._declare("POST", path, summary, **traits)

    def put(self, path: str, summary: str, **traits: Unpack[Traits]) -> Declare:
        return self._declare("PUT", path, summary, **traits)

    def patch(self, path: str, summary: str, **traits: Unpack[Traits]) -> Declare:
        return self._declare("PATCH", path, summary, **traits)

    def delete(self, path: str, summary: str, **traits: Unpack[Traits]) -> Declare:
        return self._declare("DELETE", path, summary, **traits)

    def _declare(
        self, method: Method, path: str, summary: str, **traits: Unpack[Traits]
    ) -> Declare:
        needs, status = traits["needs"], traits.get("status", 200)
        body = traits.get("body")
        usual = {400, 401, 403, 413, 503, *traits.get("problems", ())}
        if "{" in path:
            usual.add(404)
        if body is not None:
            usual |= {415, 422}
        if method == "GET":
            usual.add(422)
        options: dict[str, Any] = {} if body is None else {"dto": _documented(body)}
        answer, created = traits.get("answer"), traits.get("created")
        answers = {} if answer is None else {status: answer}
        if created is not None:
            answers[201] = ResponseSpec(created, generate_examples=False, description="It is new")

        def declare(function: Callable[..., Any]) -> HTTPRouteHandler:
            handler = _Route(
                path,
                http_method=method,
                operation_id=function.__name__,
                summary=summary,
                tags=[traits.get("tag", self._tag)],
                status_code=status,
                opt={"permission": str(needs), "owners": traits.get("is_for_owners", False)},
                security=[{SECURITY_SCHEME: [str(needs)]}],
                responses={**answers, **described(*sorted(usual))},
                return_dto=None,
                **options,
            )(_with_nearest_queue(function) if "{queue:" in path else function)
            self._handlers.append(handler)
            return handler

        return declare


def _with_nearest_queue(function: Callable[..., Any]) -> Callable[..., Any]:
    """A route that names the nearest queue in its answer if the one in its path does not exist."""

    @wraps(function)
    async def answer(*, context: Context, **given: Any) -> Any:
        try:
            return await function(context=context, **given)
        except NotFound as error:
            raise await with_nearest(context, error) from None

    return answer


def _documented(body: type[Any]) -> type[Any]:
    if is_typeddict(body):
        declared: Any = body
        body = documentation_of(declared)
    is_dto = issubclass(body, Documented)
    return body if is_dto else Documented[body]  # type: ignore[valid-type]


@cache
def documentation_of(options: Any) -> type[Struct]:
    """The type that documents a body which a `TypedDict` declares."""
    fields = [_documented_field(field) for field in fields_of(options).values()]
    named = {"__doc__": options.__doc__, "__module__": options.__module__}
    return defstruct(options.__name__, fields, namespace=named, kw_only=True, frozen=True)


def _nested(kind: Any) -> Any:
    """A type in which other types document the requests."""
    if get_origin(kind) is list:
        return list[_nested(get_args(kind)[0])]  # type: ignore[misc]
    return documentation_of(kind) if is_typeddict(kind) else kind


def _documented_field(field: DeclaredField) -> tuple[str, Any] | tuple[str, Any, Any]:
    limits: dict[str, Any] = {}
    if field.between is not None:
        limits |= {"ge": field.between.low, "le": field.between.high}
    if field.length is not None:
        limits |= {"min_length": 1, "max_length": field.length.most}
    kind: Any = Annotated[
        _nested(field.kind), Meta(**limits, description=field.description or None)
    ]
    if field.takes_none:
        return field.name, kind | None, None
    return (field.name, kind) if field.is_required else (field.name, kind, UNSET)
