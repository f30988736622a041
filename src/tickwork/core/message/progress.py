"""Progress: what a claimed message has completed so far, as named rows under its work key.

The work key is the same for every attempt at a message, and for the replay of a slot's dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.errors import FieldError, InvalidInput

PROGRESS_KEPT_SECONDS = 30 * 86_400
"""Seconds that progress is kept after it was recorded."""

PROGRESS_ROWS_MAX = 100
"""Maximum number of rows recorded at once."""


def check_progress(work: str, rows: Mapping[str, str]) -> None:
    """Refuses rows that a store cannot keep."""
    faults = text_faults("work", work, TEXT_LENGTH_MAX)
    if not 1 <= len(rows) <= PROGRESS_ROWS_MAX:
        faults.append(FieldError("rows", f"must be 1 to {PROGRESS_ROWS_MAX} rows"))
    for name, value in rows.items():
        faults += text_faults("rows", name, NAME_LENGTH_MAX)
        faults += text_faults(f"rows.{name}", value, BODY_BYTES_MAX)
    if faults:
        raise InvalidInput(faults)
