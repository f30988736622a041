"""`tickwork topology`: shows, checks, compares and applies a topology file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import Database, Json, Option, Tenant
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json, print_lines, print_table
from tickwork.cli.store_session import report_errors, scope_of, with_context

if TYPE_CHECKING:
    from tickwork.core.topology import Topology
    from tickwork.ops.topology import Step

app = Group(
    invoke_without_command=True,
    help="Topology: display, check, compare with the database, apply.",
)

FORMATS = ("table", "json", "mermaid")

File = Annotated[str | None, Option(metavar="FILE", help="Topology file; default tickwork.toml.")]
App = Annotated[
    str | None,
    Option(
        name="--app", metavar="MODULE:APP", help="Show what this app declares, instead of a file."
    ),
]
Format = Annotated[
    str | None,
    Option(name="--format", metavar="|".join(FORMATS), help="Output format; default table."),
]

_HEADING = ("queue", "shared", "producers", "events", "consumers", "dead_letter_queue")


@app.default()
def topology_command(
    file: File = None,
    target: App = None,
    kind: Format = None,
    as_json: Json = False,
) -> None:
    """Show a topology: queues with their producers, events and consumers."""
    if kind is not None and kind not in FORMATS:
        from tickwork.core.fields import choice_error

        fail(f"--format: {choice_error(kind, FORMATS)}", code=EXIT_BAD_USAGE)
    if as_json and kind not in (None, "json"):
        fail("give --format or --json, not both", code=EXIT_BAD_USAGE)
    topology = topology_of(file, target)
    if as_json or kind == "json":
        print_json(topology)
    elif kind == "mermaid":
        from tickwork.core.topology.mermaid import mermaid

        print_lines(mermaid(topology))
    else:
        print_table(_HEADING, _rows(topology), none="there are no queues")


@app.plain_command("check")
def check_command(file: File = None, as_json: Json = False) -> None:
    """Check the file without a database."""
    topology = _read(file)
    sizes = {name: len(getattr(topology, name)) for name in topology.__struct_fields__}
    if as_json:
        print_json(sizes)
    else:
        click.echo("valid: " + ", ".join(f"{size} {name}" for name, size in sizes.items()))


@app.plain_command("show")
def show_command(
    file: File = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show what applying the file would do."""
    from tickwork.ops.topology import plan

    topology, scope = _read(file), scope_of(tenant)
    _print(
        with_context(database, scope, lambda context: plan(context, topology)),
        as_json=as_json,
    )


@app.plain_command("stored")
def stored_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show the topology that is in the database."""
    from tickwork.ops.topology import stored_topology

    scope = scope_of(tenant)
    topology = with_context(database, scope, lambda context: stored_topology(context))
    if as_json:
        print_json(topology)
    else:
        print_table(_HEADING, _rows(topology), none="there are no queues")


@app.plain_command("apply")
def apply_command(
    file: File = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Create and change queues and subscriptions as in the file; delete nothing."""
    from tickwork.ops.topology import apply

    topology, scope = _read(file), scope_of(tenant)
    steps = with_context(database, scope, lambda context: apply(context, topology), create=True)
    _print(steps, as_json=as_json)


def topology_of(file: str | None, target: str | None) -> Topology:
    """The topology of a file, or what an app declares."""
    if file is not None and target is not None:
        fail("give --file or --app, not both", code=EXIT_BAD_USAGE)
    hint = "one with --file, or an app with --app MODULE:APP"
    return _read(file, instead=hint) if target is None else _declared(target)


def _read(file: str | None, *, instead: str = "one with --file") -> Topology:
    from tickwork.core.topology import FILE, parse

    path = Path(file or FILE)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        fail(f"there is no file {path}; name {instead}", code=EXIT_BAD_USAGE)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)
    except UnicodeDecodeError:
        fail(f"{path} is not valid UTF-8", code=EXIT_BAD_USAGE)
    return report_errors(lambda: parse(text, file=path.name))


def _declared(target: str) -> Topology:
    from tickwork.cli.run import load_app
    from tickwork.facade.app import engine_of
    from tickwork.ops.topology import topology_of

    registry = engine_of(load_app(target)).registry
    return report_errors(lambda: topology_of(registry))


def _rows(topology: Topology) -> Iterator[Sequence[object]]:
    producers = _by_queue((producer.queue, producer.name) for producer in topology.producers)
    events = _by_queue(
        (subscription.queue, subscription.types) for subscription in topology.subscriptions
    )
    consumers = _by_queue(
        (
            consumer.queue,
            (consumer.name or "yes") + (f" ({consumer.type})" if consumer.type else ""),
        )
        for consumer in topology.consumers
    )
    for queue in topology.queues:
        name, dead = queue.name, queue.settings.dead_letter_queue
        yield (
            *(name, queue.shared, producers.get(name), events.get(name)),
            *(consumers.get(name), dead),
        )


def _by_queue(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the names that belong to each queue, joined."""
    cells: dict[str, list[str]] = {}
    for queue, name in named:
        cells.setdefault(queue, []).append(name)
    return {queue: ", ".join(names) for queue, names in cells.items()}


def _print(steps: Iterable[Step], *, as_json: bool) -> None:
    if as_json:
        print_json(steps)
    else:
        print_lines([*_lines(steps)] or ["neither the file nor the database has queues"])


def _lines(steps: Iterable[Step]) -> Iterator[str]:
    from tickwork.ops.topology import Action, Kind

    for step in steps:
        name = step.name if step.kind is Kind.QUEUE else f"{step.name} → {step.queue}"
        shared = " (shared)" if step.shared else ""
        note = "  not in the file, kept" if step.action is Action.EXTRA else ""
        yield f"{step.action:6}  {step.kind:12}  {name}{shared}{note}"
        for change in step.changes:
            yield f"{'':22}  {change.field}: {_text(change.before)} → {_text(change.after)}"


def _text(value: object) -> str:
    import msgspec

    return "none" if value is None else msgspec.json.encode(value).decode()
