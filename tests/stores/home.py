"""A home: one database, on which any number of stores can be opened."""

from typing import Literal, Protocol

from tests.stores.clock import VirtualClock
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, database_time

Kind = Literal["model", "sqlite", "postgres"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgres")


class Home(Protocol):
    """A migrated, empty database."""

    kind: Kind
    url: str

    async def open(self, clock: VirtualClock | None = None) -> Store:
        """A store on it, for the caller to close; without a clock time is the database's own."""

    async def crash(self, store: Store) -> None:
        """Leaves the database as a process does that is killed while it has the store open."""


def moment_of(clock: VirtualClock | None) -> Moment:
    return database_time if clock is None else clock.now
