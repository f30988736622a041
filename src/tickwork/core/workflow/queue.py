"""The hidden queues in which runs wait: one for each workflow.

A node consumes the queues of the workflows that its app declares, so it never claims a run whose
code it does not have.
"""

from __future__ import annotations

import msgspec

from tickwork.core.limits import FOREVER_SECONDS, RUNS_QUEUE_PREFIX
from tickwork.core.model import NewMessage, QueueSettings
from tickwork.core.workflow.model import NewRun, Run

RUNS_SETTINGS = QueueSettings(
    max_retries=100,
    retention_seconds=FOREVER_SECONDS,
    timeout_seconds=FOREVER_SECONDS,
)
"""Settings of a queue of runs: a run never expires and has no timeout but its deadline."""


def runs_queue(workflow: str) -> str:
    """The hidden queue in which the runs of a workflow wait."""
    return f"{RUNS_QUEUE_PREFIX}{workflow}"


def workflow_of_queue(queue: str) -> str | None:
    """The workflow whose runs wait in a queue; None for other queues."""
    if not queue.startswith(RUNS_QUEUE_PREFIX):
        return None
    return queue.removeprefix(RUNS_QUEUE_PREFIX)


def run_message(run: NewRun | Run) -> NewMessage:
    """The message that stands for a run. It holds the id only."""
    return NewMessage(
        id=run.message_id,
        body=msgspec.json.encode(run.id),
        correlation_id=run.correlation_id,
    )
