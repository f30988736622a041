"""Parses the arguments of schedule commands and shows their results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tickwork.cli.options import OPTION_OF_FIELD
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json, print_lines, refuse
from tickwork.cli.session import ask
from tickwork.cli.store_session import required
from tickwork.cli.timing_options import OPTION_NAMES
from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from tickwork.client.answers import ScheduleAnswer
    from tickwork.client.client import Client


_TARGET_NAMES = {
    "target.queue": "--queue",
    "target.url": "--target-url",
    "target.endpoint": "--endpoint",
    "target_url": "--target-url",
    "target.message_type": "--message-type",
    "payload": "--payload",
    "name": "--name",
}


def show(
    database: str | None,
    tenant: str | None,
    work: Callable[[Client], Awaitable[ScheduleAnswer]],
    *,
    as_json: bool,
    create: bool = False,
    fields: Collection[str] = (),
) -> None:
    """Shows the schedule that the work returns; `fields` were given by --fields, so errors name
    them by field and not by option."""
    import msgspec

    options = OPTION_OF_FIELD | OPTION_NAMES | _TARGET_NAMES
    given = {*fields, "target"} if "target_url" in fields else fields
    names = {field: name for field, name in options.items() if _outer(field) not in given}
    shown = ask(database, tenant, work, create=create, names=names)
    if as_json:
        print_json(shown)
    else:
        print_lines(_lines(msgspec.to_builtins(shown)))


def _outer(field: str) -> str:
    return field.partition(".")[0]


def _lines(shown: dict[str, Any]) -> Iterator[str]:
    import json

    width = max(map(len, shown))
    for name, value in shown.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{name:{width}}  {text}"


def object_of(
    text: str | None, name: str, example: str = '{"overlap": "skip"}'
) -> dict[str, object]:
    """Parses a JSON object such as the example; exits if it is malformed."""
    value = {} if text is None else json_of(text, name)
    if not isinstance(value, dict):
        fail(f"{name}: must be an object such as {example}", code=EXIT_BAD_USAGE)
    return value


def json_of(text: str, name: str) -> object:
    """Parses JSON; exits if it is malformed."""
    import msgspec

    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        fail(f"{name}: is not JSON: {error}", code=EXIT_BAD_USAGE)
    return value


def instant_of(text: str | None, name: str) -> datetime:
    """Parses an ISO time with an offset; exits if it is missing or malformed."""
    from tickwork.core.fields import Reader

    faults: list[FieldError] = []
    moment = Reader({name: required(text, name)}, faults).moment(name)
    if moment is not None and moment.tzinfo is None:
        faults.append(FieldError(name, "must have an offset, such as 2027-03-14T09:00:00Z"))
    if moment is None or faults:
        refuse(InvalidInput(faults), {})
    return moment


def choice(kind: Any, given: str, name: str) -> Any:
    """Parses a member of an enum; exits if there is none."""
    from tickwork.core.fields import choice_error

    if (message := choice_error(given, kind)) is not None:
        fail(f"{name}: {message}", code=EXIT_BAD_USAGE)
    return kind(given)
