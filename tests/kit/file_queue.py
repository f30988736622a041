"""A pytest plugin: several processes share the test files, each file is run by one of them.

A process takes one file at a time, longest first, by creating a file of its name in a folder that
all processes share, until none is left. It imports only the files that it takes.

The spare process runs tests that do not depend on time. It has a low priority and so uses the
cores while the tests of the others wait. These take such tests last: at the end all processes
share what is left, and no core is idle.
"""

import gc
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

QUEUE_FOLDER = "TESTS_QUEUE"
"""Name of the environment variable with the shared folder."""

PROCESS_NUMBER = "TESTS_PROCESS"
"""Name of the environment variable with the number of this process, from 0, or `SPARE`."""

SPARE = "spare"
SPARE_NICENESS = 10
SPARE_FOLDERS = ("app", "when", "core", "ops", "conformance", "tidy")
"""Folders whose tests neither wait nor watch a clock. The others take them last."""

MIXED_FOLDERS = ("service", "api", "cli", "docs", "attacks", "client")
"""Folders of which some files wait or watch a clock. Those that do not say so by a name of
`WATCHES` may run anywhere, too."""

WATCHES = re.compile(
    r"eventually|children|Process|subprocess|Popen|Thread|to_thread|_running\b|\brunning\("
    r"|\.monotonic|import monotonic|perf_counter|process_time|thread_time"
    r"|wait_for\(|asyncio\.timeout|doctor|durable_postgres|pilot|snippets"
)
"""What a test uses that waits for others or measures."""

CROWDED = ("faults", "mutants", "examples")
"""Folders whose tests start many processes. The first process begins with them and the others end
with them, so that seldom two run at once."""

LONGEST = (
    "faults", "mutants", "examples", "service", "cli", "store", "api", "docs", "console",
)  # fmt: skip
"""Folders whose files take long, longest first. The others follow."""


def pytest_configure() -> None:
    if _process() == SPARE:
        os.nice(SPARE_NICENESS)


FILES = pytest.StashKey[list[pytest.File]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> bool | None:
    """Finds the files, and leaves the tests in them for later."""
    if session.config.option.collectonly:
        return None
    with _silent(session.config):
        found = session.perform_collect(genitems=False)
    session.stash[FILES] = [node for node in found if isinstance(node, pytest.File)]
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item | pytest.Collector]) -> None:
    """Replaces folders by their files, before the collection ends: then pytest forgets the
    fixtures of folders that were not collected."""
    items[:] = [file for item in items for file in _files(item)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """As pytest's own loop, over the files that this process gets."""
    if session.config.option.collectonly:
        return None
    items = _taken(session, Path(os.environ[QUEUE_FOLDER]))
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def _files(node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item | pytest.Collector]:
    """The test files below a folder, which are not imported yet; tests stay as they are."""
    if isinstance(node, pytest.File | pytest.Item):
        yield node
        return
    report = node.ihook.pytest_make_collect_report(collector=node)
    node.ihook.pytest_collectreport(report=report)
    for child in report.result:
        yield from _files(child)


def _taken(session: pytest.Session, queue: Path) -> Iterator[pytest.Item]:
    """The tests of the files that nobody else took. A file is taken when the one before it has
    one test left."""
    files = [candidate for candidate in session.stash[FILES] if _may_take(candidate)]
    for file in sorted(files, key=_rank):
        try:
            (queue / file.nodeid.replace("/", "+")).touch(exist_ok=False)
        except FileExistsError:
            continue
        with _silent(session.config), warnings.catch_warnings(), _without_garbage_collection():
            warnings.simplefilter("error")
            items = [*session.genitems(file)]
        session.config.hook.pytest_collection_modifyitems(
            session=session, config=session.config, items=items
        )
        session.testscollected += len(items)
        yield from items


@contextmanager
def _silent(config: pytest.Config) -> Iterator[None]:
    """Within, pytest does not print how many tests it has found so far."""
    verbose, config.option.verbose = config.option.verbose, -1
    try:
        yield
    finally:
        config.option.verbose = verbose


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Within, no object that tests left behind is finalized. One that reports an error formats a
    traceback, for which Python 3.11 parses code; if that happens while a file is parsed, Python
    before 3.11.5 raises `SystemError` (gh-106905)."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _may_take(file: pytest.File) -> bool:
    return _process() != SPARE or is_timeless(file.path, *_folders(file))


@cache
def is_timeless(path: Path, *folders: str) -> bool:
    """Whether the tests of a file in these folders do not depend on time."""
    if not {*SPARE_FOLDERS}.isdisjoint(folders):
        return True
    is_mixed = not {*MIXED_FOLDERS}.isdisjoint(folders)
    return is_mixed and WATCHES.search(path.name + path.read_text("utf-8")) is None


def _rank(file: pytest.File) -> tuple[int, str]:
    """Timeless files come last: the spare process runs them while the others wait, and all
    processes together when these have no other left."""
    order = (*LONGEST, "", *SPARE_FOLDERS)
    rank = max(
        (order.index(folder) for folder in _folders(file) if folder in order), default=len(LONGEST)
    )
    if rank < len(LONGEST) and is_timeless(file.path, *_folders(file)):
        rank = len(LONGEST) + 1
    is_crowded = any(folder in CROWDED for folder in _folders(file))
    if is_crowded and _process() != "0":
        rank += len(order)
    return (rank, file.nodeid)


def _folders(file: pytest.File) -> list[str]:
    """The folders of a file below the root of the tests."""
    return file.nodeid.split("/")[:-1]


def _process() -> str:
    return os.environ.get(PROCESS_NUMBER, "0")
