"""Releases of Tickwork that are made up: its migrations of today, and later ones, as real files.

Contract: `Release` writes a package that the loader reads as it reads a store. Within `installed`,
this process has the code of that release, as far as migrations are concerned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from tickwork.store.contract import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import doctor as postgres_doctor
from tickwork.store.postgres.engine import migrate as postgres_engine
from tickwork.store.shared.doctor import Finding
from tickwork.store.shared.sql_files import Migration, load_migrations
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine import doctor as sqlite_doctor
from tickwork.store.sqlite.engine import migrate as sqlite_engine

Kind = Literal["sqlite", "postgres"]

_numbers = count(1)


@dataclass(frozen=True)
class Release:
    """The migrations of a release."""

    folder: Path
    package: str

    @classmethod
    def write(cls, folder: Path, kind: Kind, later: Mapping[str, str]) -> Release:
        """A release with today's migrations of a store and later ones, by file name."""
        package = f"release_{next(_numbers)}_of_{kind}"
        files = folder / package / "migrations"
        files.mkdir(parents=True)
        (folder / package / "__init__.py").touch()
        today = {step.name: step.sql for step in load_migrations(f"tickwork.store.{kind}")}
        for name, sql in {**today, **later}.items():
            (files / name).write_text(sql, "utf-8")
        return cls(folder, package)

    def load(self) -> tuple[Migration, ...]:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(self.folder)
            try:
                return load_migrations(self.package)
            finally:
                sys.modules.pop(self.package, None)

    @contextmanager
    def installed(self) -> Iterator[None]:
        steps = self.load()
        with pytest.MonkeyPatch.context() as patch:
            for module in (postgres_engine, postgres_doctor, sqlite_engine, sqlite_doctor):
                patch.setattr(module, "load_migrations", lambda _: steps)
            yield


@dataclass(frozen=True)
class Schema:
    """The schema of a database of either kind."""

    kind: Kind
    url: str

    @property
    def steps(self) -> tuple[Migration, ...]:
        """The migrations of this code."""
        return load_migrations(f"tickwork.store.{self.kind}")

    async def migrate(self) -> tuple[Migration, ...]:
        if self.kind == "sqlite":
            return await sqlite_engine.migrate(self.url)
        return await postgres_engine.migrate(self.url)

    async def version(self) -> int:
        if self.kind == "sqlite":
            return await sqlite_engine.schema_version(self.url)
        return await postgres_engine.schema_version(self.url)

    async def open(self) -> Store:
        if self.kind == "sqlite":
            return await SqliteStore.open(self.url)
        return await PostgresStore.open(self.url)

    async def examine(self) -> Finding:
        """What the doctor says of the schema."""
        examine = sqlite_doctor.examine if self.kind == "sqlite" else postgres_doctor.examine
        return next(found for found in await examine(self.url) if found.check == "schema")
