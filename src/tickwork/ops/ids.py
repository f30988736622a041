"""Finds things by the last digits of their id, as people write them.

Ids begin with their time, so things made together share their first digits. Their last digits are
random: eight of them are unique among thousands.
"""

from __future__ import annotations

import re
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.model import IdKind
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import get_schedule

DIGITS_MIN = 6
"""Minimum number of digits of a short id."""

_MATCHES_SHOWN = 5
_SHORT_ID = re.compile(
    rf"(?:…|\.\.\.|(?:{'|'.join(Prefix)})_)?([0-9a-f-]{{{DIGITS_MIN},36}})", re.IGNORECASE
)


PREFIX_OF_KIND = {
    IdKind.MESSAGE: Prefix.MESSAGE,
    IdKind.DEAD_LETTER: Prefix.DEAD_LETTER,
    IdKind.DEAD_MESSAGE: Prefix.MESSAGE,
    IdKind.BATCH: Prefix.BATCH,
    IdKind.SCHEDULE: Prefix.SCHEDULE,
    IdKind.DELIVERY: Prefix.DELIVERY,
    IdKind.OPERATION: Prefix.OPERATION,
}


def parse_short_id(text: str) -> str | None:
    """Returns the hexadecimal digits of an id or of its end; None if it is neither."""
    found = _SHORT_ID.fullmatch(text)
    digits = found[1].replace("-", "").lower() if found else ""
    return digits if DIGITS_MIN <= len(digits) <= 32 else None


async def find_id(context: Context, kind: IdKind, text: str) -> UUID:
    """Returns the id that is, or ends with, this text.

    Raises `NotFound` if there is none, and `InvalidInput` if there are several.
    """
    digits = parse_short_id(text)
    if digits is None:
        raise InvalidInput([FieldError("id", f"{text!r} is not an id")])
    if len(digits) == 32:
        return UUID(digits)
    found = await context.store.ids_ending(context.scope, kind, digits, _MATCHES_SHOWN)
    if not found:
        raise NotFound(kind, f"whose id ends with {text}")
    if len(found) > 1:
        names = [public_id(PREFIX_OF_KIND[kind], match) for match in found]
        fault = f"{text!r} fits several: {', '.join(names)}; give more digits"
        raise InvalidInput([FieldError("id", fault)])
    return found[0]


async def find_schedule_id(context: Context, text: str) -> UUID:
    """Returns the id of the schedule with this name or id, or else whose id ends with this text."""
    try:
        return (await get_schedule(context, text)).id
    except NotFound:
        if parse_short_id(text) is None:
            raise
    return await find_id(context, IdKind.SCHEDULE, text)
