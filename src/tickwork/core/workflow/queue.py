"""The hidden queues in which runs wait: one for each workflow, and one for each of its versions.

A node consumes the queues of the workflows and versions that its app declares, so it never claims a
run whose code it does not have. Runs whose version is not known yet, such as those of slots, start
in the queue of the workflow.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from tickwork.core.limits import FOREVER_SECONDS, RUNS_QUEUE_PREFIX
from tickwork.core.model import NewMessage, QueueSettings
from tickwork.core.workflow.model import NewRun, Run

VERSION_MARK = "@"
"""Separates a workflow from its version in the name of a queue."""

VERSION_SHOWN_MAX = 20
"""Maximum number of characters of a version that the name of its queue shows. The name of a longer
one has a digest."""

RUNS_SETTINGS = QueueSettings(
    max_retries=100,
    retention_seconds=FOREVER_SECONDS,
    timeout_seconds=FOREVER_SECONDS,
)
"""Settings of a queue of runs: a run never expires and has no timeout but its deadline."""


def runs_queue(workflow: str, version: str | None = None) -> str:
    """The hidden queue in which the runs of a workflow wait, or those of one of its versions."""
    if version is None:
        return f"{RUNS_QUEUE_PREFIX}{workflow}"
    if len(version) > VERSION_SHOWN_MAX:
        version = blake2b(version.encode(), digest_size=VERSION_SHOWN_MAX // 2).hexdigest()
    return f"{RUNS_QUEUE_PREFIX}{workflow}{VERSION_MARK}{version}"


def pin_mark(queue: str) -> str:
    """The name of a hidden queue that stays empty. While it is there, the runs in the queue of a
    version wait for that version, also when no node is left that could say so."""
    return queue.replace(VERSION_MARK, 2 * VERSION_MARK, 1)


def is_pin_mark(queue: str) -> bool:
    """Whether a hidden queue of a workflow only marks a version as pinned."""
    return 2 * VERSION_MARK in queue


def workflow_of_queue(queue: str) -> str | None:
    """The workflow whose runs wait in a queue; None for other queues."""
    if not queue.startswith(RUNS_QUEUE_PREFIX):
        return None
    return queue.removeprefix(RUNS_QUEUE_PREFIX).partition(VERSION_MARK)[0]


def run_message(run: NewRun | Run) -> NewMessage:
    """The message that stands for a run. It holds the id only."""
    return NewMessage(
        id=run.message_id,
        body=msgspec.json.encode(run.id),
        correlation_id=run.correlation_id,
        causation_id=run.causation_id if isinstance(run, NewRun) else None,
    )
