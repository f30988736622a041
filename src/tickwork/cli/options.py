"""Options and arguments that several commands share."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, NamedTuple

import typer

CHOSEN_APP: ContextVar[str | None] = ContextVar("chosen_app", default=None)
"""The value of --app while a command runs."""


class ChosenServer(NamedTuple):
    """A server and the key for it."""

    url: str | None = None
    key: str | None = None


NO_SERVER = ChosenServer()
CHOSEN_SERVER: ContextVar[ChosenServer] = ContextVar("chosen_server", default=NO_SERVER)
"""The values of --server and --api-key while a command runs."""

Database = Annotated[
    str | None, typer.Option(metavar="URL", help="Database to use; default sqlite:///tickwork.db.")
]
"""Every command with this option also has --app, --server and --api-key (`typer_commands`)."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tenant = Annotated[
    str | None, typer.Option(metavar="TENANT", help='Tenant to act for; default "default".')
]
Shared = Annotated[
    bool, typer.Option("--shared", help="Use the shared queue, with the messages of all tenants.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
Limit = Annotated[str | None, typer.Option(metavar="N", help="Maximum number of results.")]
After = Annotated[str | None, typer.Option(metavar="ID", help="Start after this id.")]

Watch = Annotated[
    str | None,
    typer.Option(
        "--watch", metavar="SECONDS", help="Show it again and again, with this pause, until Ctrl-C."
    ),
]

QueueName = Annotated[str | None, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
LetterId = Annotated[str | None, typer.Argument(metavar="ID", help="Id of the dead letter.")]
ScheduleName = Annotated[
    str | None, typer.Argument(metavar="SCHEDULE", help="Id or name of the schedule.")
]
BatchId = Annotated[str | None, typer.Argument(metavar="ID", help="Id of the batch.")]

OPTION_OF_FIELD = {
    "database": "--database",
    "tenant": "--tenant",
    "limit": "--limit",
    "canary": "--canary",
    "canary_timeout_seconds": "--canary-timeout-seconds",
    "rate_per_second": "--rate-per-second",
    "timeout_seconds": "--timeout-seconds",
    "first_byte_seconds": "--first-byte-seconds",
    "ids": "--id",
    "body": "--body",
    "delay_seconds": "--delay-seconds",
}
"""Option of each field, for error messages."""
