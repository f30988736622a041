"""Routes for firings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from litestar import Request, Router, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import (
    Example,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    RequestBody,
    Schema,
)
from litestar.params import FromPath, HeaderParameter

from tickwork.api.bodies import READS_BODY, read_object
from tickwork.api.problems import described
from tickwork.api.server_state import ServerState
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.answers.schedule import CompletedFiring
from tickwork.core.delivery.callback import STATUSES, TOKEN_HEADER
from tickwork.errors import Unauthorized
from tickwork.ops.schedules.complete import complete_firing

_BEARER = "bearer "
_ANSWER = ResponseSpec(
    CompletedFiring,
    description="The attempt has ended",
    generate_examples=False,
    examples=[
        Example(
            summary="Completed",
            value={
                "id": "fir_019b76daa80070008000000000000001",
                "schedule_id": "sch_019b76daa80070008000000000000002",
                "slot": "2027-03-14T09:00:00Z",
                "attempt": 1,
                "status": "succeeded",
            },
        )
    ],
)
_HEADER = "The value that came with the webhook. `Authorization: Bearer` takes it, too."


@dataclass
class _Completion(Operation):
    """Describes the body, which may be empty and is read by the route itself."""

    def __post_init__(self) -> None:
        kinds = [OpenAPIType.STRING, OpenAPIType.NULL]
        status = Schema(type=kinds, enum=[*STATUSES, None], default=STATUSES[0])
        error = Schema(type=kinds, description="Why it failed.")
        schema = Schema(
            type=OpenAPIType.OBJECT,
            properties={"status": status, "error": error},
            additional_properties=False,
        )
        media_type = OpenAPIMediaType(schema=schema)
        self.request_body = RequestBody(content={"application/json": media_type}, required=False)


@post(
    "/{firing_id:str}/complete",
    operation_class=_Completion,
    opt={"permission": "open", READS_BODY: True},
    status_code=200,
    operation_id="complete_firing",
    summary="Complete a firing",
    responses={200: _ANSWER, **described(400, 401, 404, 409, 413, 422, 503)},
)
async def complete(
    firing_id: FromPath[str],
    request: Request[Any, Any, Any],
    server: NamedDependency[ServerState],
    complete_token: Annotated[
        str | None, HeaderParameter(name=TOKEN_HEADER, description=_HEADER, required=False)
    ] = None,
) -> CompletedFiring:
    """Completes a firing that its receiver accepted with 202 (`completion: "callback"`).

    The token alone is enough: no API key is needed. The body is empty, or
    `{"status": "succeeded"}`, or `{"status": "failed", "error": "why"}`. A token that was used, or
    whose time is over, or of an earlier attempt, is answered with 409.
    """
    token = complete_token or _bearer(request.headers.get("Authorization", ""))
    if token is None:
        fault = f"send the token in the header {TOKEN_HEADER}, or as a bearer token"
        raise Unauthorized(Unauthorized.code, fault)
    raw = await request.body()
    fields = read_object(raw) if raw.strip() else {}
    wanted = read_path_id(Prefix.FIRING, firing_id, "firing")
    return await complete_firing(server.store, token, fields, firing_id=wanted)


def firing_routes() -> Router:
    """Returns the router of firings."""
    return Router("/v1/firings", route_handlers=[complete], tags=["schedules"])


def _bearer(authorization: str) -> str | None:
    is_bearer = authorization.lower().startswith(_BEARER)
    return authorization[len(_BEARER) :].strip() or None if is_bearer else None
