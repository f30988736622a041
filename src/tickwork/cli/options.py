"""The options that several commands have, so that each is spelled and told in one way."""

from __future__ import annotations

from typing import Annotated

import typer

Database = Annotated[str | None, typer.Option(metavar="URL", help="Default sqlite:///tickwork.db.")]
Json = Annotated[bool, typer.Option("--json", help="Answer as JSON.")]
Tenant = Annotated[str | None, typer.Option(metavar="TENANT", help='Whose; default "default".')]
Shared = Annotated[
    bool, typer.Option("--shared", help="The shared queue, with the messages of every tenant.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Limit = Annotated[str | None, typer.Option(metavar="N", help="How many at most.")]
After = Annotated[str | None, typer.Option(metavar="ID", help="Go on after this one.")]

QueueName = Annotated[str | None, typer.Argument(metavar="QUEUE", help="The name of a queue.")]
LetterId = Annotated[str | None, typer.Argument(metavar="ID", help="The id of a dead letter.")]
ScheduleName = Annotated[
    str | None, typer.Argument(metavar="SCHEDULE", help="The id or name of a schedule.")
]
BatchId = Annotated[str | None, typer.Argument(metavar="ID", help="The id of a batch.")]

NAMES = {
    "database": "--database",
    "tenant": "--tenant",
    "limit": "--limit",
    "canary": "--canary",
    "canary_timeout_seconds": "--canary-timeout",
    "rate_per_second": "--rate",
    "timeout_seconds": "--timeout",
    "ids": "--id",
    "body": "--body",
    "delay_seconds": "--delay",
}
"""Under which name a field was given."""
