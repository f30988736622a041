"""Routes that explain what something waits for, and show everything of one correlation."""

from __future__ import annotations

from typing import Annotated

from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from tickwork.api.operation import Routes
from tickwork.api.routes.workflows import named_workflow
from tickwork.core.access import Permission
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.answers.search import Findings
from tickwork.core.answers.wait import Wait
from tickwork.core.delivery.request import read_delivery_id
from tickwork.core.trace import Trace
from tickwork.ops import why
from tickwork.ops.context import Context
from tickwork.ops.search import search
from tickwork.ops.trace import trace_anything

routes = Routes("messages")


class EntityWaits(Struct, frozen=True):
    """The alarm of an entity, and the calls that run or wait."""

    items: tuple[Wait, ...]


@routes.get(
    "/v1/messages/{message_id:str}/why", "Explain what a message waits for", needs=Permission.READ
)
async def why_message(message_id: FromPath[str], context: NamedDependency[Context]) -> Wait:
    """Answers with a code, what it waits for, since when, until when, and what happens next. A
    message that died answers with its dead letter. For
    the `webhook-id` of a schedule's webhook it answers what became of its slot."""
    if (sent := read_delivery_id(message_id)) is not None:
        return await why.why_sent(context, sent)
    wanted = read_path_id(Prefix.MESSAGE, message_id, "message")
    return await why.why_sent_message(context, wanted)


@routes.get(
    "/v1/dead/{dead_letter_id:str}/why",
    "Explain what becomes of a dead letter",
    needs=Permission.READ,
    tag="dead letters",
)
async def why_dead_letter(dead_letter_id: FromPath[str], context: NamedDependency[Context]) -> Wait:
    """Answers why it died, and what happens next."""
    wanted = read_path_id(Prefix.DEAD_LETTER, dead_letter_id, "dead letter")
    return await why.why_dead_letter(context, wanted)


@routes.get(
    "/v1/deliveries/{delivery:str}/why",
    "Explain what a delivery waits for",
    needs=Permission.READ,
    tag="endpoints",
)
async def why_delivery(delivery: FromPath[str], context: NamedDependency[Context]) -> Wait:
    """Answers whether it arrived, waits for its retry or for its endpoint, or died."""
    wanted = read_path_id(Prefix.DELIVERY, delivery, "delivery")
    return await why.why_delivery(context, wanted)


@routes.get(
    "/v1/endpoints/{endpoint:str}/why",
    "Explain whether an endpoint takes deliveries",
    needs=Permission.READ,
    tag="endpoints",
)
async def why_endpoint(endpoint: FromPath[str], context: NamedDependency[Context]) -> Wait:
    """Answers whether it is disabled, its breaker is open, its secrets cannot be read, or it takes
    deliveries."""
    return await why.why_endpoint(context, endpoint)


@routes.get(
    "/v1/workflows/{workflow:str}/runs/{run:str}/why",
    "Explain what a run waits for",
    needs=Permission.READ,
    tag="workflows",
)
async def why_run(
    workflow: FromPath[str], run: FromPath[str], context: NamedDependency[Context]
) -> Wait:
    """Answers with a code and sentences; the details name the steps it waits for."""
    name = named_workflow(workflow)
    return await why.why_run(context, run, workflow=name)


@routes.get(
    "/v1/entities/{entity_type:str}/{key:str}/why",
    "Explain what the calls and the alarm of an entity wait for",
    needs=Permission.READ,
    tag="entities",
)
async def why_entity(
    entity_type: FromPath[str], key: FromPath[str], context: NamedDependency[Context]
) -> EntityWaits:
    """Answers for its alarm, and for the calls that run or wait, the first ones first."""
    return EntityWaits(await why.why_entity(context, entity_type, key))


@routes.get(
    "/v1/trace/{correlation_id:str}", "Show everything of one correlation", needs=Permission.READ
)
async def get_trace(correlation_id: FromPath[str], context: NamedDependency[Context]) -> Trace:
    """Returns messages, dead letters, deliveries, runs with their steps and firings as a tree. The
    id of a message, a dead letter or a run stands for its correlation."""
    return await trace_anything(context, correlation_id)


@routes.get(
    "/v1/search", "Find things by id, name, owner, key or correlation id", needs=Permission.READ
)
async def find(
    q: Annotated[str, QueryParameter(description="An id, or what a name or key has in it.")],
    context: NamedDependency[Context],
) -> Findings:
    """Returns the thing with this id, schedules and entities whose name or key begins with the
    text, schedules of this owner, and queues, endpoints, workflows and types of entities with it in
    their name: up to five of each kind."""
    return await search(context, q)
