"""Loads SQL files: named statements, one per file, and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import SimpleNamespace

from msgspec import Struct

from tickwork.errors import StoreBroken
from tickwork.store.shared.columns import fill_in
from tickwork.store.shared.constants import CONSTANTS


def load(package: str, own: Mapping[str, str] | None = None) -> SimpleNamespace:
    """The statements of a package's `sql` folder and its subfolders as attributes. Each name is
    used once.

    Their placeholders are filled in: `columns`, `constants`, the store's `own`, and the files in
    the folder `fragments`, which several statements share.
    """
    statements: dict[str, str] = {}
    known = CONSTANTS | dict(own or {})
    folder = files(package).joinpath("sql")
    fragments = {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8").strip()
        for entry in folder.joinpath(_FRAGMENTS).iterdir()
    }
    for noun in folder.iterdir():
        if noun.name == _FRAGMENTS:
            continue
        for entry in noun.iterdir() if noun.is_dir() else (noun,):
            name = entry.name.removesuffix(".sql")
            assert name not in statements, f"{name}.sql is in two folders"
            statements[name] = fill_in(_put_in(entry.read_text("utf-8"), fragments), known)
    return SimpleNamespace(**statements)


_FRAGMENTS = "fragments"
_FRAGMENT = re.compile(r"/\*(\w+)(?: ([$?]\d+))?(?: of ([\w.]+))?\*/")


def _put_in(sql: str, fragments: Mapping[str, str]) -> str:
    """Replaces `/*lanes*/` by the fragment of that name. `/*lanes $4*/` has a parameter, which
    takes the place of `/*start*/` in the fragment; without one that is an empty text. `/*lanes of
    queue.id*/` takes the place of `/*queue*/`; without one that is `$2`."""
    return _FRAGMENT.sub(
        lambda found: (
            fragments[found[1]]
            .replace("/*start*/", found[2] or "''")
            .replace("/*queue*/", found[3] or "$2")
            if found[1] in fragments
            else found[0]
        ),
        sql,
    )


_NAME = re.compile(r"^(\d{4})_[a-z_]+\.sql$")


class Migration(Struct, frozen=True):
    """One step of a schema."""

    version: int
    name: str
    sql: str


@cache
def load_migrations(package: str) -> tuple[Migration, ...]:
    """A store's migrations in order, numbered from 1 without gaps. They are read once: a process
    keeps to the schema of its own code, also while an update replaces the files."""
    steps: list[Migration] = []
    folder = files(package).joinpath("migrations")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".sql"):
            match = _NAME.match(entry.name)
            assert match is not None, f"{entry.name} is not named like 0001_baseline.sql"
            steps.append(Migration(int(match[1]), entry.name, entry.read_text("utf-8")))
    versions = [step.version for step in steps]
    assert versions == [*range(1, len(steps) + 1)], (
        f"{versions} are not numbered from 1 without gaps"
    )
    return tuple(steps)


def pending(migrations: Sequence[Migration], version: int) -> tuple[Migration, ...]:
    """The migrations that a schema of this version needs; raises `StoreBroken` if it is newer."""
    if version > len(migrations):
        raise StoreBroken(
            f"the schema has version {version}, this Tickwork knows {len(migrations)}: "
            "it was migrated by a newer one; update this installation"
        )
    return tuple(migrations[version:])
