"""`tickwork copy`: its options and errors. What it copies is in `tests/store/test_copy.py`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tests.cli.kit import Desk
from tests.stores.home import Home
from tickwork.cli import app
from tickwork.core.model import DEFAULT, QueueSettings


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["copy", *words])
    return result.exit_code, result.stderr or result.stdout


def test_wrong_uses_of_copy_are_refused(desk: Desk) -> None:
    assert run() == (2, "tickwork: SOURCE is missing; see --help\n")
    assert run(desk.url) == (2, "tickwork: TARGET is missing; see --help\n")
    code, told = run(desk.url, "postgresql://x/y", "--thaw")
    assert (code, told) == (2, "tickwork: give --thaw or TARGET, not both\n")
    code, told = run(desk.url, desk.url)
    assert (code, "copies a SQLite file to a PostgreSQL database" in told) == (2, True)
    code, told = run(desk.url, "--thaw")
    assert (code, "does not exist" in told) == (1, True)
    assert CliRunner().invoke(app, ["copy", "--help"]).exit_code == 0


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_a_copy_prints_its_tables_and_thaws(desk: Desk, home: Home) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "mail", QueueSettings()))
    code, told = run(desk.url, home.url)
    assert code == 0
    assert "tickwork_queues" in told
    assert "counts and checksums are equal" in told
    frozen = desk.run("queues", "pause", "mail")
    assert (frozen.exit_code, "frozen" in frozen.stderr) == (1, True)
    assert run(desk.url, "--thaw") == (0, "processes can write again\n")
    assert run(desk.url, "--thaw") == (0, "it was not frozen\n")
