"""The options of `tickwork endpoints create` and `update`, and the fields that they give."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tickwork.cli.output import EXIT_BAD_USAGE, fail, refuse
from tickwork.cli.schedule_output import object_of
from tickwork.cli.store_session import number, whole_number
from tickwork.errors import FieldError, InvalidInput

EndpointName = Annotated[
    str | None, typer.Argument(metavar="ENDPOINT", help="Name or id of the endpoint.")
]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Address that receives the events.")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Type of published events, such as order.*, or * for all; repeatable.",
    ),
]
NoTypes = Annotated[
    bool,
    typer.Option(
        "--no-types", help="No published events; only schedules and queues that name it send to it."
    ),
]
Owner = Annotated[
    str | None, typer.Option(metavar="OWNER", help="Receive only events of this owner.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Header of every delivery; repeatable."),
]
SecretHeader = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="The same, stored encrypted; repeatable."),
]
Ordered = Annotated[
    bool | None,
    typer.Option("--ordered/--unordered", help="Deliver one after the other, oldest first."),
]
RatePerSecond = Annotated[
    str | None,
    typer.Option("--rate-per-second", metavar="N", help="Deliveries per second on each node."),
]
Concurrency = Annotated[
    str | None, typer.Option(metavar="N", help="Deliveries at a time on each node.")
]
NamedLimit = Annotated[
    str | None,
    typer.Option("--limit", metavar="LIMIT", help="Share this named limit with others."),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout-seconds", metavar="SECONDS", help="Seconds for one delivery; default 30."
    ),
]
FirstByte = Annotated[
    str | None,
    typer.Option(
        "--first-byte-seconds",
        metavar="SECONDS",
        help="Seconds until an answer begins; default --timeout-seconds.",
    ),
]
Signature = Annotated[
    str | None,
    typer.Option(
        metavar="v1|v1a", help="Sign with a shared secret (v1, default) or a private key (v1a)."
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Further fields of the API, such as {"retry_seconds": [5, 60]}; null: the default.',
    ),
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; shown with the endpoint.")]


def fields_of(
    *,
    url: str | None,
    types: list[str] | None,
    no_types: bool,
    owner: str | None,
    header: list[str] | None,
    secret_header: list[str] | None,
    ordered: bool | None,
    rate: str | None,
    concurrency: str | None,
    limit: str | None,
    timeout: str | None,
    first_byte: str | None,
    signature: str | None,
    fields: str | None,
) -> dict[str, Any]:
    """The fields that were given."""
    if types and no_types:
        fail("give either --type or --no-types", code=EXIT_BAD_USAGE)
    given: dict[str, object | None] = {
        "url": url,
        "types": [] if no_types else types or None,
        "owner": owner,
        "headers": _pairs(header, "--header"),
        "secret_headers": _pairs(secret_header, "--secret-header"),
        "ordered": ordered,
        "rate_per_second": None if rate is None else number(rate, "--rate-per-second"),
        "concurrency": None
        if concurrency is None
        else whole_number(concurrency, "--concurrency", 0),
        "limit": limit,
        "timeout_seconds": None
        if timeout is None
        else whole_number(timeout, "--timeout-seconds", 0),
        "first_byte_seconds": None
        if first_byte is None
        else whole_number(first_byte, "--first-byte-seconds", 0),
        "signature": signature,
    }
    further = object_of(fields, "--fields", '{"retry_seconds": [5, 60]}')
    chosen = {name: value for name, value in given.items() if value is not None}
    _check_further(further, chosen)
    return chosen | further


def _check_further(further: dict[str, object], chosen: dict[str, object]) -> None:
    """Exits if --fields has a field that there is not, or that an option gives, too."""
    from tickwork.core.fields import Reader
    from tickwork.core.options import EndpointFields, names_of

    faults: list[FieldError] = []
    reader = Reader(further, faults)
    hints = {"name": "the name of an endpoint stays; it is the argument ENDPOINT"}
    reader.refuse_unknown({*names_of(EndpointFields)}, hints)
    for name in further.keys() & chosen.keys():
        reader.fault(name, "is given by an option and in --fields; give it once")
    if faults:
        refuse(InvalidInput(faults), {})


def _pairs(given: list[str] | None, option: str) -> dict[str, str] | None:
    if not given:
        return None
    pairs: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            fail(f"{option}: must be NAME=VALUE, not {pair!r}", code=EXIT_BAD_USAGE)
        pairs[name] = value
    return pairs
