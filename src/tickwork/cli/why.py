"""`tickwork why` and `tickwork trace`: what something waits for, and what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option
from tickwork.cli.output import Report, local_time
from tickwork.cli.session import local_context
from tickwork.cli.values import instant

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.schedule import Why
    from tickwork.core.answers.search import Findings
    from tickwork.core.answers.wait import Wait
    from tickwork.core.trace import Trace, TraceNode

top = Group("What something waits for, and what belongs together.")

Reference = Annotated[
    str,
    Argument(
        "Name or id of a schedule or endpoint; id of a message, dead letter, delivery or run;"
        " webhook-id.",
        "ID",
        fields=("id",),
    ),
]
At = Annotated[
    datetime,
    Option("Time of a schedule to explain; default the latest slot.", "ISO", read=instant),
]
Sought = Annotated[
    str, Argument("An id, or the beginning of a name or key.", "TEXT", fields=("q",))
]
Correlation = Annotated[
    str,
    Argument(
        "Correlation id, or id of a message, dead letter or run.", "ID", fields=("correlation_id",)
    ),
]


@top.client_command("why")
async def explain(client: Client, reference: Reference, at: At | None = None) -> Report:
    """Explain why a schedule fired, or did not, or what a message, delivery or run waits for."""
    from tickwork.core.answers.schedule import Why

    found = await _why(client, reference, at)
    lines = _slot_lines(found) if isinstance(found, Why) else wait_lines(found)
    return Report(found, *lines)


async def _why(client: Client, reference: str, at: datetime | None) -> Why | Wait:
    from tickwork.errors import NotFound

    context = local_context()
    if context is not None:  # A database also knows the last digits of an id.
        from tickwork.ops.why import why_anything

        return await why_anything(context, reference, at)
    try:
        return await client.schedules.why(reference, at)
    except NotFound:
        if at is not None:
            raise
    return await client.why(reference)


def _slot_lines(found: Why) -> Iterator[str]:
    from tickwork.core.when import iso

    yield f"{iso(found.at.replace(microsecond=0))}: {found.answer}"
    if found.triggered is not None:
        run = found.triggered
        yield f"triggered {iso(run.at.replace(microsecond=0))}: {run.answer}"
    if found.previous_slot is not None:
        yield f"previous slot: {iso(found.previous_slot)}"
    if found.next_slot is not None:
        yield f"next slot: {iso(found.next_slot)}"


def wait_lines(found: Wait) -> Iterator[str]:
    """What something waits for, in lines."""
    yield found.answer
    if found.since is not None:
        yield f"since: {local_time(found.since)}"
    if found.until is not None:
        yield f"until: {local_time(found.until)}"
    yield f"next: {found.next}"
    yield from (f"{detail[:1].upper()}{detail[1:]}." for detail in found.details)
    if found.correlation_id is not None:
        yield f"trace: tickwork trace {found.correlation_id}"


def _found_lines(found: Findings) -> Iterator[str]:
    if not found.items:
        yield "Nothing has this id, or a name that begins with it."
    for finding in found.items:
        within = "" if finding.parent is None else f" of {finding.parent}"
        note = "" if finding.note is None else f": {finding.note}"
        name = finding.id if finding.id == finding.name else f"{finding.name} {finding.id}"
        yield f"{finding.kind.replace('_', ' ')}{within} {name}{note}"
    if found.is_cut:
        yield "There is more: of each kind five are shown."


@top.client_command("find", show=_found_lines)
async def find(client: Client, text: Sought) -> Findings:
    """Find things of all kinds by an id, a name, an owner, a key or a correlation id."""
    return await client.search(text)


def _trace_lines(found: Trace) -> Iterator[str]:
    yield f"correlation {found.correlation_id}"
    for node in found.nodes:
        yield from _tree_lines(node, 1)
    if found.is_cut:
        yield f"There is more: a trace shows {found.records} records at most."


def _tree_lines(node: TraceNode, depth: int) -> Iterator[str]:
    from tickwork.core.message.error_summary import summary_line

    words = [node.kind.replace("_", " "), node.id]
    words += [word for word in (node.name, node.type, node.state) if word]
    if node.at is not None:
        words.append(local_time(node.at))
    if node.error is not None:
        words.append(f"({summary_line(node.error)})")
    yield f"{'  ' * depth}{' '.join(words)}"
    for child in node.children:
        yield from _tree_lines(child, depth + 1)


@top.client_command("trace", show=_trace_lines)
async def trace(client: Client, reference: Correlation) -> Trace:
    """Show everything of one correlation as a tree."""
    return await client.trace(reference)
