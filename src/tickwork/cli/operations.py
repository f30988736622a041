"""`tickwork operations`: starts, lists, shows and stops work on many things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option
from tickwork.cli.output import Report, columns, field_lines, shortened
from tickwork.cli.values import given, json_value

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.operation import OperationView

operations = Group("Work on many things, which nodes carry on: start, list, show, stop.")

LISTED = 100

OperationId = Annotated[str, Argument("Id of the operation.", "ID", id_of="operation")]
Kind = Annotated[
    str, Argument("What to do, such as dead_letters.replay.", "KIND", fields=("kind",))
]
Which = Annotated[
    Any, Option('Which things, as JSON: {"queue": "emails"}.', "JSON", read=json_value)
]
Canary = Annotated[int, Option("Do N first, and the rest only if all of them succeed.", "N")]
CanaryTimeout = Annotated[
    float, Option("Seconds to wait for the canaries; default 300.", "SECONDS")
]
Rate = Annotated[float, Option("Things per second.", "N")]
Open = Annotated[bool, Option("Only those that are not finished.")]


def _progress(operation: OperationView) -> str:
    about = "about " if operation.is_estimate else ""
    return f"{operation.done + operation.failed + operation.skipped} of {about}{operation.total}"


def _error(operation: OperationView) -> str:
    return shortened(operation.reason or operation.error or "")


@operations.client_command("start")
async def start(
    client: Client,
    kind: Kind,
    selection: Which,
    canary: Canary = 0,
    canary_timeout_seconds: CanaryTimeout | None = None,
    rate_per_second: Rate | None = None,
) -> Report:
    """Start work on everything that a selection matches now. Nodes carry it on.

    Kinds: dead_letters.replay, dead_letters.discard, runs.restart, runs.cancel, runs.terminate,
    schedules.pause, schedules.resume.
    """
    started = await client.operations.start(
        kind,
        selection,
        canary=canary,
        rate_per_second=rate_per_second,
        **given(canary_timeout_seconds=canary_timeout_seconds),
    )
    return Report(started, f"{started.id} acts on {started.total}; nodes carry it on")


@operations.client_command(
    "list",
    show=columns(
        *(("operation", "id"), "kind", "state", ("progress", _progress), "failed"),
        *("started_by", "started_at", "finished_at", ("why", _error)),
        none="there are no operations",
    ),
    watch=True,
)
async def list_operations(
    client: Client, open_only: Open = False, limit: Limit = LISTED
) -> Sequence[OperationView]:
    """List operations, newest first. A finished one is kept for 30 days."""
    return await client.operations.list(open_only=open_only, limit=limit)


@operations.client_command("show", show=field_lines, watch=True)
async def show_operation(client: Client, operation: OperationId) -> OperationView:
    """Show one operation: how far it is, who started it, and what became of it."""
    return await client.operations.get(operation)


@operations.client_command("stop")
async def stop_operation(client: Client, operation: OperationId) -> Report:
    """Stop an operation. What is done stays done."""
    stopped = await client.operations.stop(operation)
    return Report(stopped, f"{stopped.id} is stopped after {_progress(stopped)}")
