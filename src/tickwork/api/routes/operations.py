"""Routes for operations: work on many things, which nodes carry on in batches."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery
from msgspec import Meta, Struct

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.answers.operation import OperationView
from tickwork.core.fields import shown
from tickwork.core.operation import (
    CANARIES_MAX,
    CANARY_TIMEOUT_SECONDS,
    CANARY_TIMEOUT_SECONDS_MAX,
    OperationKind,
)
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.ops.context import Context
from tickwork.ops.operations import verbs

routes = Routes("operations")

_START = [
    Example(
        summary="Replay dead letters: one first, then 10 a second",
        value={
            "kind": "dead_letters.replay",
            "selection": {"queue": "emails", "type": "welcome"},
            "canary": 1,
            "rate_per_second": 10,
        },
    ),
    Example(
        summary="Restart failed runs: two first, and the rest if they complete",
        value={
            "kind": "runs.restart",
            "selection": {"workflow": "order", "status": "failed"},
            "canary": 2,
        },
    ),
    Example(
        summary="Discard dead letters",
        value={"kind": "dead_letters.discard", "selection": {"queue": "emails"}},
    ),
]


class NewOperation(Struct, frozen=True, kw_only=True):
    """What to do, with which things, and how fast."""

    kind: OperationKind
    selection: Annotated[
        dict[str, Any],
        Meta(description="Which things, by the fields of the kind. It is frozen when it starts."),
    ]
    canary: Annotated[
        int, Meta(ge=0, le=CANARIES_MAX, description="So many first; the rest if they succeed.")
    ] = 0
    canary_timeout_seconds: Annotated[
        float, Meta(description="How long the canaries may take.")
    ] = CANARY_TIMEOUT_SECONDS
    rate_per_second: Annotated[float | None, Meta(description="Things a second.")] = None


@routes.post(
    "/v1/operations",
    "Start an operation",
    needs=Permission.MANAGE,
    status=201,
    body=NewOperation,
    problems=(404, 409),
)
async def start_operation(
    data: Annotated[dict[str, Any], Body(examples=_START)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[OperationView]:
    """Starts work on everything that the selection matches now. Nodes carry it on in batches, also
    if the caller goes away; what comes later is left alone."""
    reader = body_reader(data, *NewOperation.__struct_fields__)
    kind = reader.one_of("kind", OperationKind)
    selection = reader.value("selection")
    if not isinstance(selection, dict):
        reader.fault("selection", f"must be an object of fields, not {shown(selection)}")
    canary = reader.integer("canary", 0, CANARIES_MAX, 0)
    timeout: float | None = CANARY_TIMEOUT_SECONDS
    if reader.has("canary_timeout_seconds"):
        timeout = reader.number_between(
            "canary_timeout_seconds", 1, CANARY_TIMEOUT_SECONDS_MAX, "a number of seconds"
        )
    rate = None
    if reader.has("rate_per_second"):
        what = "a number of things a second"
        rate = reader.number_between("rate_per_second", RATE_MIN, RATE_MAX, what)
    finished(reader)
    assert kind is not None
    assert isinstance(selection, dict)
    assert timeout is not None

    async def make(seed: UUID) -> OperationView:
        made = await verbs.begin(
            context,
            kind,
            selection,
            operation_id=seed,
            canary=canary or 0,
            canary_timeout_seconds=timeout,
            rate_per_second=rate,
        )
        return OperationView.of(made)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get("/v1/operations", "List operations", needs=Permission.READ)
async def list_operations(
    context: NamedDependency[Context],
    open_only: FromQuery[bool] = False,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[OperationView]:
    """Returns operations, newest first; with `open_only` those that are not finished. A finished
    one is kept for 30 days."""
    before: UUID | None = read_cursor(cursor, UUID)
    found = await verbs.list_operations(context, limit=limit + 1, before=before, is_open=open_only)
    return page_of(found, limit, lambda operation: operation.id, OperationView.of)


@routes.get("/v1/operations/{operation:str}", "Get an operation", needs=Permission.READ)
async def get_operation(
    operation: FromPath[str], context: NamedDependency[Context]
) -> OperationView:
    """Returns one operation: how far it is, who started it, and what became of it."""
    return OperationView.of(await verbs.get_operation(context, _id(operation)))


@routes.post(
    "/v1/operations/{operation:str}/stop",
    "Stop an operation",
    needs=Permission.MANAGE,
    problems=(409,),
)
async def stop_operation(
    operation: FromPath[str], context: NamedDependency[Context]
) -> OperationView:
    """Stops an operation: after the answer nothing more is done. What is done stays done."""
    return OperationView.of(await verbs.stop_operation(context, _id(operation)))


def _id(text: str) -> UUID:
    return read_path_id(Prefix.OPERATION, text, "operation")
