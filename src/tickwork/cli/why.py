"""`tickwork why` and `tickwork trace`: what something waits for, and what belongs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Option, Tenant
from tickwork.cli.output import local_time, print_json, print_lines
from tickwork.cli.schedule_output import instant_of
from tickwork.cli.session import ask, server_url
from tickwork.cli.store_session import required, scope_of, with_context

if TYPE_CHECKING:
    from tickwork.client.answers import WhyAnswer
    from tickwork.client.client import Client
    from tickwork.client.run_answers import Wait
    from tickwork.core.trace import TraceNode

Reference = Annotated[
    str | None,
    Argument(
        metavar="ID",
        help="Name or id of a schedule or endpoint; id of a message, dead letter, delivery or run;"
        " webhook-id.",
    ),
]
At = Annotated[
    str | None,
    Option(metavar="ISO", help="Time of a schedule to explain; default the latest slot."),
]
Correlation = Annotated[
    str | None,
    Argument(metavar="ID", help="Correlation id, or id of a message, dead letter or run."),
]


def why_command(
    reference: Reference = None,
    at: At = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Explain why a schedule fired, or did not, or what a message, delivery or run waits for."""
    from tickwork.client.answers import WhyAnswer
    from tickwork.errors import NotFound

    text, local = required(reference, "ID"), server_url(database) is None
    instant = None if at is None else instant_of(at, "--at")
    names = OPTION_OF_FIELD | {"id": "ID"}

    async def asked(client: Client) -> WhyAnswer | Wait:
        try:
            return await client.schedules.why(text, instant)
        except NotFound:
            if instant is not None:
                raise
        return await client.why(text)

    if local:
        found: Any = _why_here(database, tenant, text, instant, names)
    else:
        found = ask(database, tenant, asked, names=names)
    if as_json:
        print_json(found)
    elif isinstance(found, WhyAnswer):
        print_lines(_slot_lines(found))
    else:
        print_lines(wait_lines(found))


def _why_here(
    database: str | None,
    tenant: str | None,
    text: str,
    instant: datetime | None,
    names: Mapping[str, str],
) -> Any:
    """The answer of a database, which also knows the last digits of an id."""
    from tickwork.cli.local import answer_of
    from tickwork.ops.why import why_anything

    scope = scope_of(tenant)
    return answer_of(
        with_context(
            database,
            scope,
            lambda context: why_anything(context, text, instant),
            names=names,
        )
    )


def _slot_lines(found: WhyAnswer) -> Iterator[str]:
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


def trace_command(
    reference: Correlation = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show everything of one correlation as a tree."""
    text = required(reference, "ID")
    found = ask(
        database,
        tenant,
        lambda client: client.trace(text),
        names=OPTION_OF_FIELD | {"correlation_id": "ID"},
    )
    if as_json:
        print_json(found)
        return
    lines = [f"correlation {found.correlation_id}"]
    for node in found.nodes:
        lines += _tree_lines(node, 1)
    if found.is_cut:
        lines.append(f"There is more: a trace shows {found.records} records at most.")
    print_lines(lines)


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
