"""Routes for consumers in any language: pull messages, ack them, extend their leases."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath
from msgspec import Meta, Struct

from tickwork.api.operation import Routes
from tickwork.api.query import body_reader, finished
from tickwork.api.server_state import ServerState
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.message import (
    AckAnswer,
    Extended,
    PullAnswer,
    PulledMessage,
    RefusedLease,
)
from tickwork.core.fields import Reader, shown
from tickwork.core.limits import DELAY_SECONDS_MAX, LEASE_SECONDS_MAX
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops import pull, queues
from tickwork.ops.context import Context

routes = Routes("messages")

_LEASE_ID = Annotated[str, Meta(description="Of a pulled message.")]


class PullRequest(Struct, frozen=True, kw_only=True):
    """How many messages to lease, for how long, and how long to wait for the first one."""

    batch_size: Annotated[int, Meta(ge=1, le=pull.PULLED_MAX)] = 10
    visibility_timeout_ms: Annotated[
        Annotated[int, Meta(ge=0, le=LEASE_SECONDS_MAX * 1000)] | None,
        Meta(description="How long the messages are leased; default: the queue's setting."),
    ] = None
    wait_ms: Annotated[int, Meta(ge=0, le=int(pull.WAIT_SECONDS_MAX * 1000))] = 0


class LeaseName(Struct, frozen=True):
    """A lease to ack."""

    lease_id: _LEASE_ID


class LeaseRetry(Struct, frozen=True):
    """A lease to give back; without a delay after the queue's backoff."""

    lease_id: _LEASE_ID
    delay_seconds: float | None = None


class AckRequest(Struct, frozen=True, kw_only=True):
    """Leases to settle."""

    acks: list[LeaseName] = []
    retries: list[LeaseRetry] = []


class ExtendRequest(Struct, frozen=True, kw_only=True):
    """A lease, and how long it lasts from now."""

    lease_id: _LEASE_ID
    visibility_timeout_ms: Annotated[int, Meta(ge=0, le=LEASE_SECONDS_MAX * 1000)]


_PULL = [Example(summary="Wait up to 10 seconds", value={"batch_size": 10, "wait_ms": 10000})]
_ACK = [Example(summary="Ack all", value={"acks": [], "retries": []})]


@routes.post(
    "/v1/queues/{queue:str}/messages/pull",
    "Pull messages",
    needs=Permission.CONSUME,
    body=PullRequest,
    problems=(409,),
)
async def pull_messages(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_PULL)],
    context: NamedDependency[Context],
    server: NamedDependency[ServerState],
) -> PullAnswer:
    """Leases messages. Ack them, or they are handed out again when the lease has expired.

    409 for a queue that an app declares: its handlers process the messages.
    """
    queues.check_visible(queue)
    reader = body_reader(data, "batch_size", "visibility_timeout_ms", "wait_ms")
    limit = reader.integer("batch_size", 1, pull.PULLED_MAX, 10)
    wait = reader.integer("wait_ms", 0, int(pull.WAIT_SECONDS_MAX * 1000), 0)
    lease = None
    if reader.has("visibility_timeout_ms"):
        lease = reader.integer("visibility_timeout_ms", 0, LEASE_SECONDS_MAX * 1000)
    finished(reader)
    pulled = await server.puller.pull(
        context.store,
        context.scope,
        queue,
        limit=limit or 1,
        lease_seconds=None if lease is None else lease / 1000,
        wait_seconds=(wait or 0) / 1000,
    )
    leased = (PulledMessage.of(message.message, message.lease_id) for message in pulled.messages)
    return PullAnswer(tuple(leased), pulled.backlog)


@routes.post(
    "/v1/queues/{queue:str}/messages/ack",
    "Ack or retry pulled messages",
    needs=Permission.CONSUME,
    body=AckRequest,
    problems=(409,),
)
async def ack_messages(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_ACK)],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
) -> AckAnswer:
    """Settles leases in one transaction. A lease that is over is refused and changes nothing."""
    queues.check_visible(queue)
    reader = body_reader(data, "acks", "retries")
    acks, retries = _list(reader, "acks"), _list(reader, "retries")
    finished(reader)
    if len(acks) + len(retries) > pull.SETTLED_MAX:
        fault = f"has {len(acks) + len(retries)} leases with retries; at most {pull.SETTLED_MAX}"
        raise InvalidInput([FieldError("acks", fault)])
    settled = await pull.settle_pulled(
        context,
        queue,
        [_lease(f"acks[{at}]", ack, caller) for at, ack in enumerate(acks)],
        [_retry(f"retries[{at}]", retry, caller) for at, retry in enumerate(retries)],
    )
    refused = tuple(RefusedLease(lease_id) for lease_id in settled.refused)
    return AckAnswer(settled.acked, settled.retried, refused)


@routes.post(
    "/v1/queues/{queue:str}/messages/extend",
    "Extend a lease",
    needs=Permission.CONSUME,
    body=ExtendRequest,
    problems=(409,),
)
async def extend_message(
    queue: FromPath[str], data: Annotated[dict[str, Any], Body()], context: NamedDependency[Context]
) -> Extended:
    """Makes a lease expire so many milliseconds from now; 409 `not_held` if it is over."""
    queues.check_visible(queue)
    reader = body_reader(data, "lease_id", "visibility_timeout_ms")
    timeout = reader.integer("visibility_timeout_ms", 0, LEASE_SECONDS_MAX * 1000)
    finished(reader)
    lease = pull.read_lease("lease_id", data.get("lease_id"), context.scope)
    milliseconds = timeout or 0
    await pull.extend_lease(context, queue, lease, milliseconds / 1000)
    return Extended(lease.lease_id, milliseconds)


def _list(reader: Reader, name: str) -> list[Any]:
    value = reader.value(name)
    if value is None:
        return []
    if not isinstance(value, list):
        reader.fault(name, f"must be a list of objects, not {shown(value)}")
        return []
    return value


def _lease(field: str, given: object, caller: Caller) -> pull.Lease:
    fields = given if isinstance(given, dict) else {"lease_id": given}
    reader = Reader(fields, [], f"{field}.")
    reader.refuse_unknown(frozenset({"lease_id"}))
    finished(reader)
    return pull.read_lease(f"{field}.lease_id", fields.get("lease_id"), caller.scope)


def _retry(field: str, given: object, caller: Caller) -> pull.Retry:
    fields = given if isinstance(given, dict) else {"lease_id": given}
    reader = Reader(fields, [], f"{field}.")
    reader.refuse_unknown(frozenset({"lease_id", "delay_seconds"}))
    delay = None
    if reader.has("delay_seconds"):
        delay = reader.number_between("delay_seconds", 0, DELAY_SECONDS_MAX, "a number of seconds")
    finished(reader)
    lease = pull.read_lease(f"{field}.lease_id", fields.get("lease_id"), caller.scope)
    return pull.Retry(lease, delay)
