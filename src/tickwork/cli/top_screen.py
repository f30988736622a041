"""The screen of `tickwork top`: three tables and a line above them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from tickwork.cli.output import escape_controls, local_time
from tickwork.cli.top import Snapshot
from tickwork.errors import TickworkError

_COLUMNS = {
    "queues": (
        *("queue", "sent/min", "done/min", "ready", "delayed", "claimed", "blocked", "dead"),
        "oldest",
    ),
    "nodes": ("node", "roles", "lease", "messages", "shards"),
    "failures": ("queue", "dead letters", "reason", "last", "error"),
}


class TopScreen(App[None]):
    """Shows what `look` returns, again and again."""

    CSS = """
    #summary { height: auto; padding: 0 1; text-style: bold; }
    .title { padding: 1 1 0 1; }
    DataTable { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit"), ("r", "refresh", "Look now")]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, look: Callable[[], Awaitable[Snapshot]], every_seconds: float) -> None:
        super().__init__()
        self._look, self._every_seconds = look, every_seconds

    def compose(self) -> ComposeResult:
        """The parts of the screen."""
        yield Static("", id="summary", markup=False)
        with VerticalScroll():
            for name in _COLUMNS:
                yield Static(name, classes="title")
                yield DataTable(id=name, cursor_type="none", zebra_stripes=True)
        yield Footer()

    async def on_mount(self) -> None:
        """Shows the first look, and starts the others."""
        for name, columns in _COLUMNS.items():
            self.query_one(f"#{name}", DataTable).add_columns(*columns)
        await self.action_refresh()
        self.set_interval(self._every_seconds, self.action_refresh)

    async def action_refresh(self) -> None:
        """Looks and shows it. An error is shown above; the tables stay as they were."""
        summary = self.query_one("#summary", Static)
        try:
            seen = await self._look()
        except TickworkError as error:
            summary.update(f"cannot look: {escape_controls(str(error))}")
            return
        summary.update(summary_of(seen))
        self._fill("queues", _queue_rows(seen))
        self._fill("nodes", _node_rows(seen))
        self._fill("failures", _failure_rows(seen))

    def _fill(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        table = self.query_one(f"#{name}", DataTable)
        table.clear()
        for row in rows:
            table.add_row(*(escape_controls(str(cell)) for cell in row))


def summary_of(seen: Snapshot) -> str:
    """The line above the tables."""
    ready = sum(queue.ready for queue in seen.queues)
    dead = sum(queue.dead for queue in seen.queues)
    words = [f"{ready} ready, {dead} dead letters"]
    if seen.paused_at is not None:
        words.append(f"EVERYTHING IS PAUSED since {local_time(seen.paused_at)}")
    if seen.late_seconds >= 1:
        words.append(f"schedules are late by {seen.late_seconds:.0f} s")
    elif seen.next_due_at is not None:
        words.append(f"next slot {local_time(seen.next_due_at)}")
    if seen.nodes is None:
        words.append("nodes need a key with the scope admin")
    else:
        words.append(f"{sum(node.is_alive for node in seen.nodes)} live nodes")
        missing = len(seen.shards_without_leader)
        words.append(
            f"{missing} shards without a leader" if missing else "all shards have a leader"
        )
    return "; ".join(words)


def _queue_rows(seen: Snapshot) -> Iterable[Sequence[object]]:
    for queue in seen.queues:
        age = "" if queue.oldest_seconds is None else f"{queue.oldest_seconds:.0f} s"
        yield (
            *(queue.queue, queue.sent, queue.done, queue.ready, queue.delayed, queue.claimed),
            *(queue.blocked, queue.dead, age),
        )


def _node_rows(seen: Snapshot) -> Iterable[Sequence[object]]:
    for node in seen.nodes or ():
        lease = "valid" if node.is_alive else "expired"
        yield node.name, ",".join(node.roles), lease, node.messages, node.shards


def _failure_rows(seen: Snapshot) -> Iterable[Sequence[object]]:
    for failure in seen.failures:
        last = local_time(failure.last_failed_at)
        yield failure.queue, failure.dead_letters, failure.reason, last, failure.fingerprint
