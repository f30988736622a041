"""Options and arguments of commands: how one is declared, and those that several commands share.

A parameter of a verb is an option or an argument by its annotation:

    Limit = Annotated[int, Option(metavar="N", help="Maximum number of results.")]

`command.py` makes the option of the command line from it. Its type says how its text is read, its
default whether it must be given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct

NamedKind = Literal[
    "message", "dead letter", "batch", "schedule", "delivery", "operation", "schedule name"
]
"""What has ids that may be given by their last digits; of a schedule also the name."""


class Declared(Struct, frozen=True):
    """What options and arguments have.

    `fields` are names of it in errors, besides the name of the parameter. `read` turns its text and
    its name into a value, if the type does not say how; of a list all texts. With `id_of` it is an
    id, which on a database may be given by its last digits. `missing` is what to say if it must be
    given and is not. What only works on a database says in `database_only` what to do on a server.
    """

    help: str
    metavar: str | None = None
    fields: tuple[str, ...] = ()
    read: Callable[[Any, str], Any] | None = None
    id_of: NamedKind | None = None
    name: str | None = None
    missing: str | None = None
    database_only: str | None = None


class Option(Declared, frozen=True):
    """An option. `name` is `--` and the name of the parameter, unless it is given."""


class Argument(Declared, frozen=True):
    """An argument, by position; errors name it by its metavar."""


class OptionsOf(Struct, frozen=True):
    """The options for the fields of a request that a `TypedDict` declares.

    `Annotated[EndpointFields, OptionsOf({"types": Types})]`: a number, a text or a choice has the
    option that its type and its description make. Others have none, unless they are `given` here
    as a parameter is; None leaves one out. With `are_texts` each has one, and is not read.
    """

    given: Mapping[str, Any] = {}
    are_texts: bool = False


class Connection(NamedTuple):
    """Where a command works and for whom: the values of --database, --app, --server, --api-key,
    --tenant and --shared."""

    database: str | None = None
    app: str | None = None
    server: str | None = None
    api_key: str | None = None
    tenant: str | None = None
    shared: bool = False


NOWHERE = Connection()
CONNECTION: ContextVar[Connection] = ContextVar("connection", default=NOWHERE)
"""That of the running command."""

Yes = Annotated[bool, Option("Skip the confirmation.")]
Limit = Annotated[int, Option("Maximum number of results.", "N")]
QueueName = Annotated[str, Argument("Name of the queue.", "QUEUE", fields=("queue", "name"))]

Json = Annotated[bool, Option("Print JSON.", name="--json")]
Shared = Annotated[bool, Option("Use the shared queue, with the messages of all tenants.")]

OPTION_OF_FIELD = {"database": "--database", "tenant": "--tenant"}
"""Options that are no parameter of a verb, by their fields."""
