"""`tickwork topology`: shows, checks, compares and applies a topology file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Json, Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, Shown, Table, fail, print_report
from tickwork.cli.store_session import report_errors, with_context

if TYPE_CHECKING:
    from tickwork.core.topology import Topology
    from tickwork.ops.context import Context
    from tickwork.ops.topology import Step

topology = Group("Topology: display, check, compare with the database, apply.")

FORMATS = ("table", "json", "mermaid")

File = Annotated[str, Option("Topology file; default tickwork.toml.", "FILE")]
App = Annotated[
    str, Option("Show what this app declares, instead of a file.", "MODULE:APP", name="--app")
]
Format = Annotated[str, Option("Output format; default table.", "|".join(FORMATS), name="--format")]

_HEADING = ("queue", "shared", "producers", "events", "consumers", "dead_letter_queue")


@topology.default()
def show_declared(
    file: File | None = None,
    target: App | None = None,
    kind: Format | None = None,
    as_json: Json = False,
) -> None:
    """Show a topology: queues with their producers, events and consumers."""
    if kind is not None and kind not in FORMATS:
        from tickwork.core.fields import choice_error

        fail(f"--format: {choice_error(kind, FORMATS)}", code=EXIT_BAD_USAGE)
    if as_json and kind not in (None, "json"):
        fail("give --format or --json, not both", code=EXIT_BAD_USAGE)
    found = topology_of(file, target)
    if kind == "mermaid":
        from tickwork.core.topology.mermaid import mermaid

        report = Report(found, *mermaid(found))
    else:
        report = Report(found, *_table(found))
    print_report(report, as_json=as_json or kind == "json")


@topology.plain_command("check")
def check(file: File | None = None) -> Report:
    """Check the file without a database."""
    found = _read(file)
    sizes = {name: len(getattr(found, name)) for name in found.__struct_fields__}
    return Report(sizes, "valid: " + ", ".join(f"{size} {name}" for name, size in sizes.items()))


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


def _table(topology: Topology) -> Shown:
    return [Table(_HEADING, _rows(topology), "there are no queues")]


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


def _steps(steps: Iterable[Step]) -> Shown:
    return [*_lines(steps)] or ["neither the file nor the database has queues"]


@topology.plain_command("show", show=_steps, on_database=True)
def show_steps(file: File | None = None) -> Sequence[Step]:
    """Show what applying the file would do."""
    from tickwork.ops.topology import plan

    wanted = _read(file)  # Before the database is opened, or made.
    return with_context(lambda context: plan(context, wanted))


@topology.database_command("stored", show=_table)
async def show_stored(context: Context) -> Topology:
    """Show the topology that is in the database."""
    from tickwork.ops.topology import stored_topology

    return await stored_topology(context)


@topology.plain_command("apply", show=_steps, on_database=True)
def apply_file(file: File | None = None) -> Sequence[Step]:
    """Create and change queues and subscriptions as in the file; delete nothing."""
    from tickwork.ops.topology import apply

    wanted = _read(file)
    return with_context(lambda context: apply(context, wanted), create=True)
