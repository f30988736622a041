"""A pytest plugin: several processes share the test files, each file is run by one of them.

Every process collects the same tests. It then takes one file at a time, longest first, by
creating a file of its name in a folder that all processes share, until none is left.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

QUEUE_FOLDER = "TICKWORK_TEST_QUEUE"
"""Name of the environment variable with the shared folder."""

PROCESS_NUMBER = "TICKWORK_TEST_PROCESS"
"""Name of the environment variable with the number of this process, from 0."""

CROWDED = ("faults", "mutants", "examples")
"""Folders whose tests start many processes. The first process begins with them and the others end
with them, so that seldom two run at once."""

LONGEST = (
    "faults", "mutants", "examples", "service", "conformance", "cli", "when", "store", "api",
    "app", "docs", "ops",
)  # fmt: skip
"""Folders whose files take long, longest first. The others follow."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """As pytest's own loop, over the files that this process gets."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    if session.config.option.collectonly:
        return True
    items = _taken(session.items, Path(os.environ[QUEUE_FOLDER]))
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


def _taken(items: list[pytest.Item], queue: Path) -> Iterator[pytest.Item]:
    """The tests of the files that nobody else took. A file is taken when the one before it has
    one test left."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for path in sorted(files, key=_rank):
        try:
            (queue / str(path).replace("/", "+")).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield from files[path]


def _rank(path: Path) -> tuple[int, str]:
    ranks = [LONGEST.index(each) for each in path.parts if each in LONGEST]
    rank = ranks[-1] if ranks else len(LONGEST)
    is_crowded = any(each in CROWDED for each in path.parts)
    if is_crowded and os.environ.get(PROCESS_NUMBER, "0") != "0":
        rank += len(LONGEST) + 1
    return (rank, str(path))
