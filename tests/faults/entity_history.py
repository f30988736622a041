"""Checks that the calls of one entity happened one after the other, each whole and once.

Each call appends its name to the entity's entries, stores its position, sends both, and returns the
position. So the entries are the serial history, and everything else must agree with them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class History(NamedTuple):
    """What was found: the entries, the stored and the sent positions, the answers of calls, and the
    names that must be there."""

    entries: Sequence[str]
    stored: Mapping[str, int]
    sent: Sequence[tuple[str, int]]
    answers: Sequence[tuple[str, int]]
    needed: Sequence[str]


def faults_of(history: History) -> list[str]:
    """What contradicts a serial history; empty if nothing does."""
    positions = {name: at for at, name in enumerate(history.entries, start=1)}
    faults = []
    if len(positions) != len(history.entries):
        faults.append("a call has happened twice")
    if dict(history.stored) != positions:
        faults.append("the storage was not written as a whole")
    if sorted(history.sent) != sorted(positions.items()):
        faults.append("the sends are not those of the calls")
    if any(positions.get(name) != at for name, at in history.answers):
        faults.append("an answered call is missing, or elsewhere")
    if not positions.keys() >= {*history.needed}:
        faults.append("a send was lost")
    return faults
