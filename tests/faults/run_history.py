"""Checks that runs ended, that no recorded step ran again, and that each step had its effects once.

Each step that sends does so once, and one step writes a row. Both commit with the record of their
step, so they must be there once, however often the function of the step ran.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

StepName = tuple[str, str]
"""A run and one of its steps."""


class History(NamedTuple):
    """What was found: the results of the runs, each time a step's function ran, those times at
    which its result was recorded before, what steps sent, the rows, and what must be there."""

    results: Mapping[str, Any]
    ran: Sequence[StepName]
    ran_again: Sequence[StepName]
    sent: Sequence[StepName]
    rows: Sequence[str]
    runs: Sequence[str]
    steps: Sequence[str]
    result: Any


def faults_of(history: History) -> list[str]:
    """What contradicts the laws of runs; empty if nothing does."""
    expected = Counter((run, step) for run in history.runs for step in history.steps)
    faults = []
    if dict(history.results) != dict.fromkeys(history.runs, history.result):
        faults.append("a run has not ended, or has another result")
    if history.ran_again:
        faults.append("a step ran again after its result was recorded")
    if expected - Counter(history.ran):
        faults.append("a step has a result, and never ran")
    if Counter(history.sent) - expected:
        faults.append("a step sent twice")
    if expected - Counter(history.sent):
        faults.append("a message of a step was lost")
    if Counter(history.rows) != Counter(history.runs):
        faults.append("a row of a step was lost, or written twice")
    return faults
