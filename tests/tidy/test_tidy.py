"""The tree keeps the laws of `laws.py`; a failure lists every offence as `file:line what`."""

from __future__ import annotations

import ast
import gc
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pathspec
import pytest

import tickwork
from tests.tidy import laws
from tests.tidy.laws import Offence

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tickwork"

CLOCK_READERS = frozenset({PACKAGE / "clock.py"})
BROAD_CATCHERS = frozenset(
    PACKAGE / name
    for name in (
        "service/loop.py",
        "store/ports/callers_thread.py",
        "service/http_application.py",
        "entity/consumer.py",
        "service/worker/invoke.py",
        "service/worker/settle_retry.py",
        "service/worker/permits.py",
        "service/isolation/threads.py",
        "service/isolation/process_main.py",
        "service/observe/log_format.py",
        "app/payloads.py",
        "engine/declared.py",
        "channel/asgi.py",
        "cli/run.py",
        "store/shared/group_commit.py",
        "workflow/map_steps.py",
        "service/isolation/stoppable.py",
        "cli/import_sources.py",
        "workflow/body_loop.py",
        "workflow/do_steps.py",
        "workflow/execution.py",
        "workflow/body_calls.py",
        "store/shared/watches.py",
    )
)
"""Modules that may catch any exception, because code of the app can raise anything.

A background loop logs the error and continues. An error of a handler or of its statements becomes
an outcome, and an error of a step its record. An error of an app's module or payload type becomes
an error message, and one of an ASGI application a 500. A value that cannot be logged is replaced by
the name of its type. `permits.py`, `group_commit.py`, `callers_thread.py` and `watches.py` pass an
error to those who wait."""

NOUNS_IN_ING = frozenset({"firing", "wiring"})
"""Module names that end like a gerund and are none."""

STANDALONE = {
    "tickwork.api.response_headers": "what every response has; the application only assembles",
    "tickwork.client.event_stream": "parses server-sent events, without sockets",
    "tickwork.ops.operations.schedules": "a file per thing that operations act on",
    "tickwork.client.operations": "the verbs of a noun of their own, as those of the app",
    "tickwork.channel.guarded_connector": "the guard's only use of aiohttp, which is optional",
    "tickwork.cli.alerts": "a file per command group",
    "tickwork.cli.audit": "a file per command group",
    "tickwork.cli.local": "loads the app, which a command on a server does not need",
    "tickwork.cli.completion": "only two options of the root need it, so it is imported late",
    "tickwork.cli.copy": "a file per command group",
    "tickwork.service.isolation.stoppable": "stops a thread, which nothing else here can",
    "tickwork.service.not_ready": "answers HTTP without a framework, before the API can start",
    "tickwork.cli.limits": "a file per command group",
    "tickwork.cli.performance": "a file per command group",
    "tickwork.cli.readers": "a file per command group",
    "tickwork.cli.services": "a file per command group",
    "tickwork.ops.readers": "a file per noun",
    "tickwork.cli.database": "a file per command group",
    "tickwork.cli.subscriptions": "a file per command group",
    "tickwork.cli.webhooks": "a file per command group",
    "tickwork.testing.pytest_plugin": "pytest loads it by its name",
    "tickwork.core.entity.missing_method": "when nobody has the method of a call: no I/O",
    "tickwork.core.http.route": "which paths a handler answers: no I/O",
    "tickwork.core.when.time_texts": "short forms are turned into objects before they are parsed",
    "tickwork.entity.call_wait": "waiting is shared by all calls of a process",
    "tickwork.ops.background_loop": "the loop of a process: threads, forks, the end",
    "tickwork.service.scheduler.calendars": "a background job of the scheduler",
    "tickwork.store.workflow_contract": "part of the contract",
    "tickwork.store.entity_contract": "part of the contract",
    "tickwork.store.postgres.messages.progress": "the stores have one skeleton",
    "tickwork.store.sqlite.messages.progress": "the stores have one skeleton",
    "tickwork.store.sqlite.readers": "the stores have one skeleton",
    "tickwork.ops.sessions": "the verbs of a noun of their own",
    "tickwork.store.postgres.engine.identity": "which URLs name one database",
    "tickwork.store.postgres.endpoints.deliveries": "the stores have one skeleton",
    "tickwork.store.sqlite.engine.wakeups": "the stores have one skeleton",
    "tickwork.store.sqlite.messages.dead_copies": "the stores have one skeleton",
    "tickwork.store.sqlite.queues": "the stores have one skeleton",
    "tickwork.store.sqlite.pruner": "the stores have one skeleton",
    "tickwork.store.postgres.nodes": "the stores have one skeleton",
    "tickwork.cli.child": "the program of a process that a parent starts",
    "tickwork.testing.steps": "mocks and crashes of steps, which users see as h.steps",
    "tickwork.testing.store_setup": "where a test's store comes from, apart from what drives it",
    "tickwork.testing.recorded_cluster": "for users and the examples, which import it",
}
"""Modules under 60 lines of code with a single importer, and why each is a file."""

A_FILE_PER_NOUN = "tickwork.api.routes."
"""A package whose modules are a file for each noun, however small."""

BEDS = {
    "beds.py": "opens databases, and fills them in bulk",
    "scheduler_beds.py": "a leader whose clock is set",
    "console_bed.py": "prepares a database for the console",
    "queue_bench.py": "what the store costs alone; worker_bench measures it through an app",
    "whole_queue_bench.py": "what the store costs alone, in large queues",
    "history_bench.py": "a look-up in the store, and its partitions",
    "time_bench.py": "computes times, which no app does alone",
}
"""Modules of `bench/` beside the floors that know the inside of the package, and why."""

SLEEPERS = frozenset({ROOT / "tests" / "kit" / "waiting.py"})
"""Where tests wait: one poll loop, bounded, that stops as soon as its condition holds."""

PUBLIC_NAMES_MAX = 61
"""Workflows have five: `Step` and `Retries` for a body, and the three errors that it or the caller
of a run may catch. Entities have six: the base class, its two decorators, and the three errors that
a caller may catch. Services have four: a binding, the answer of a call, and its two errors;
HTTP handlers have one, their request."""
_NOT_SURFACE = frozenset({"annotations", "TYPE_CHECKING"})


T = TypeVar("T")


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    # Python's parser fails if it is begun anew in the middle, and what is collected meanwhile may
    # show a traceback, which does that.
    gc.disable()
    try:
        return ast.parse(read(path), filename=str(path))
    finally:
        gc.enable()


@cache
def shipped_files() -> tuple[Path, ...]:
    """Every file that .gitignore does not name: what a commit would hold."""
    ignored = pathspec.GitIgnoreSpec.from_lines([*read(ROOT / ".gitignore").splitlines(), ".git"])
    files: list[Path] = []
    for folder, subfolders, names in os.walk(ROOT):
        here = Path(folder).relative_to(ROOT)
        subfolders[:] = [name for name in subfolders if not ignored.match_file(f"{here / name}/")]
        files += [ROOT / here / name for name in names if not ignored.match_file(here / name)]
    return tuple(sorted(files))


def files_in(folder: str, suffix: str) -> list[Path]:
    return [f for f in shipped_files() if f.is_relative_to(ROOT / folder) and f.suffix == suffix]


def modules() -> list[Path]:
    return files_in("src", ".py")


def written() -> list[Path]:
    """The package, and what is shown with it."""
    return [*modules(), *files_in("examples", ".py")]


def texts() -> Iterator[Path]:
    for path in shipped_files():
        if b"\0" not in path.read_bytes()[:8192]:
            yield path


def keep(
    law: Callable[[T], Iterable[Offence]],
    view: Callable[[Path], T],
    files: Iterable[Path],
) -> None:
    """Fails with every offence against the law, one a line."""
    found = [
        f"{path.relative_to(ROOT)}:{offence.line} {offence.what}"
        for path in files
        for offence in law(view(path))
    ]
    if found:
        pytest.fail("\n".join([inspect.getdoc(law) or "", *found]), pytrace=False)


def test_the_laws_have_something_to_judge() -> None:
    assert len(modules()) > 5
    assert len(written()) > len(modules())
    assert ROOT / "pyproject.toml" in shipped_files()


def test_no_function_has_too_many_ways_through_it() -> None:
    keep(laws.complex_functions, parse, written())


def test_no_class_has_too_many_methods() -> None:
    keep(laws.large_classes, parse, written())


def test_no_assignment_is_packed() -> None:
    keep(laws.packed_assignments, parse, written())


def test_a_name_says_what_it_is() -> None:
    keep(laws.vague_names, parse, [*written(), *files_in("bench", ".py")])


def test_a_docstring_uses_the_words_of_the_glossary() -> None:
    keep(laws.vague_docstrings, parse, [*written(), *files_in("bench", ".py")])


def test_no_class_name_stands_twice_in_a_layer() -> None:
    modules_of: dict[tuple[str, str], list[str]] = {}
    for path in modules():
        layer, *rest = path.relative_to(PACKAGE).parts
        if layer == "store" and rest[0] in ("nouns", "postgres", "sqlite"):
            layer = f"store/{rest[0]}"  # The contract, and who keeps it.
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef):
                module = str(path.relative_to(PACKAGE))
                modules_of.setdefault((layer, node.name), []).append(module)
    assert {name: found for name, found in modules_of.items() if len(found) > 1} == {}


def test_a_small_module_with_one_importer_says_why_it_stands_alone() -> None:
    """A crumb belongs to its importer, unless `STANDALONE` gives a reason."""
    importers: dict[str, set[str]] = {}
    names = {_module_name(path): path for path in modules()}
    for name, path in names.items():
        for node in laws.nodes_of(parse(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    importers.setdefault(full if full in names else node.module, set()).add(name)
    crumbs = {
        name
        for name, path in names.items()
        if path.name not in ("__init__.py", "__main__.py")
        and len(importers.get(name, ())) <= 1
        and not name.startswith(A_FILE_PER_NOUN)
        and laws.code_lines(read(path)) < laws.CRUMB_CODE_LINES_MAX
    }
    assert crumbs == STANDALONE.keys()


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


def test_no_function_is_too_long() -> None:
    keep(laws.long_functions, parse, written())


def test_every_module_has_a_docstring() -> None:
    keep(laws.missing_docstring, parse, written())


def test_a_constant_begins_with_its_quantity() -> None:
    keep(laws.vague_quantities, read, written())


def test_modules_are_named_by_nouns_or_verbs() -> None:
    gerunds = [
        str(path.relative_to(PACKAGE))
        for path in modules()
        if path.stem.endswith("ing") and path.stem not in NOUNS_IN_ING
    ]
    assert gerunds == []


def test_nothing_is_left_unfinished() -> None:
    keep(laws.unfinished_marks, read, written())


def test_only_the_clock_module_reads_a_local_clock() -> None:
    others = [path for path in modules() if path not in CLOCK_READERS]
    keep(laws.clock_readings, parse, others)


def test_only_the_listed_modules_catch_everything() -> None:
    others = [path for path in written() if path not in BROAD_CATCHERS]
    keep(laws.broad_catches, parse, others)


def test_sql_lives_in_sql_files() -> None:
    keep(laws.embedded_sql, parse, modules())


def test_every_sql_file_says_what_it_promises() -> None:
    keep(laws.unexplained_sql, read, files_in("src", ".sql"))


def test_all_is_the_real_surface() -> None:
    defined = {
        name
        for name, value in vars(tickwork).items()
        if not name.startswith("_") and name not in _NOT_SURFACE and not inspect.ismodule(value)
    }
    assert defined <= set(tickwork.__all__)
    assert len(tickwork.__all__) == len(set(tickwork.__all__)) <= PUBLIC_NAMES_MAX
    assert not [name for name in tickwork.__all__ if not hasattr(tickwork, name)]


def test_benchmarks_use_what_users_have() -> None:
    rows = [path for path in files_in("bench", ".py") if not path.stem.endswith("_floor")]
    keep(laws.hidden_imports, parse, [path for path in rows if path.name not in BEDS])
    assert all(any(laws.hidden_imports(parse(ROOT / "bench" / name))) for name in BEDS)


def test_no_test_sleeps_or_looks_away() -> None:
    others = [path for path in files_in("tests", ".py") if path not in SLEEPERS]
    keep(laws.evasions, read, others)


def test_no_file_names_a_registry_or_a_machine() -> None:
    keep(laws.named_places, read, texts())


def test_locks_hold_hashes_and_no_addresses() -> None:
    locks = files_in("requirements", ".txt")
    assert [lock.name for lock in locks] == ["console.txt", "dev.txt", "docs.txt", "run.txt"]
    keep(laws.addresses_in_lock, read, locks)
