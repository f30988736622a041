"""Migrations are for ever: what a database has run does not change.

`migrations.txt` has the digest of each, by its statements: comments and blanks may change.
"""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from tickwork.store.shared.sql_files import load_migrations

STORES = ("postgres", "sqlite")
DIGESTS = Path(__file__).with_name("migrations.txt")


def digest(script: str) -> str:
    statements = re.sub(r"--[^\n]*", " ", script)
    return sha256(" ".join(statements.split()).encode()).hexdigest()


def known() -> dict[str, str]:
    """Digests by the store and the name of a migration."""
    lines = (line.split() for line in DIGESTS.read_text("utf-8").splitlines())
    return {name: value for value, name in lines}


def fault(name: str, script: str, digests: dict[str, str], later: int) -> str | None:
    """What is wrong with a migration; `later` is the number of the next one."""
    found = digest(script)
    if name not in digests:
        return f"{name} is not in {DIGESTS.name}: add the line\n{found} {name}"
    if digests[name] != found:
        what = "the baseline" if name.endswith("/0001_baseline.sql") else name
        return f"{name} has changed: add a migration {later:04}_… instead of changing {what}"
    return None


@pytest.mark.parametrize("store", STORES)
def test_a_migration_never_changes(store: str) -> None:
    steps, digests = load_migrations(f"tickwork.store.{store}"), known()
    found = (fault(f"{store}/{step.name}", step.sql, digests, len(steps) + 1) for step in steps)
    faults = [text for text in found if text is not None]
    assert not faults, "\n".join(faults)


def test_a_migration_is_never_removed() -> None:
    names = {
        f"{store}/{step.name}"
        for store in STORES
        for step in load_migrations(f"tickwork.store.{store}")
    }
    gone = known().keys() - names
    assert not gone, f"{', '.join(sorted(gone))}: databases have run it; put it back"


def test_a_change_of_a_statement_is_found_and_a_comment_is_free() -> None:
    script = "-- A table.\nCREATE TABLE a (\n    b text  -- Why.\n);\n"
    digests = {"postgres/0001_baseline.sql": digest(script)}
    name = "postgres/0001_baseline.sql"
    assert fault(name, "-- More.\nCREATE TABLE a ( b text );", digests, 2) is None
    changed = fault(name, script.replace("text", "bytea"), digests, 2)
    assert changed is not None
    assert "add a migration 0002_… instead of changing the baseline" in changed
    assert "add the line" in str(fault("postgres/0002_more.sql", script, digests, 3))
