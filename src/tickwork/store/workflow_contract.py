"""The contract of a store for workflows: runs, their steps and events.

It continues `contract.py`, whose rules hold here too. What a worker records for a run is fenced by
its claim on the run's message, in the statement itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.health_facts import RunFacts
from tickwork.core.model import Claim, NewMessage, Scope
from tickwork.core.workflow.control import Decision
from tickwork.core.workflow.model import (
    Checkpoint,
    ConflictPolicy,
    NewRun,
    Run,
    RunActivity,
    RunEnd,
    RunHistory,
    RunPage,
    RunResult,
    RunSelection,
    RunWindow,
)


class Workflows(Protocol):
    """Runs of workflows."""

    async def start(
        self, scope: Scope, runs: Sequence[NewRun], on_conflict: ConflictPolicy
    ) -> tuple[Run, ...]:
        """Stores runs with their messages, all or none, and returns them in order; one that exists
        as it is stored, if the policy uses or restarts it. `Conflict` if it does not, or if it
        belongs to another workflow. `NotFound` if the queue of the workflow does not exist."""

    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        """Stores a run for a message that exists, such as that of a slot, and returns its record;
        None if the claim is no longer valid. A repeat returns that of the stored run."""

    async def get(self, scope: Scope, run_id: str) -> Run:
        """Returns one run."""

    async def history(self, scope: Scope, run_id: str, *, with_steps: bool = True) -> RunHistory:
        """Returns a run with all its steps and its events."""

    async def page(self, scope: Scope, run_id: str, window: RunWindow) -> RunPage:
        """Returns a run with a window of its steps and events, the steps that are open, and how
        many it has. The cost grows with the window and the open steps, hardly with the others."""

    async def list(
        self,
        scope: Scope,
        selection: RunSelection,
        limit: int,
        *,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[Run, ...]:
        """Returns the selected runs, newest first, before a time of creation and uid."""

    async def troubled(self, scope: Scope, *, since: datetime, limit: int) -> tuple[RunFacts, ...]:
        """Counts the runs that diverged, and those that failed after a time, by workflow; at most
        `limit` of each kind."""

    async def results(self, scope: Scope, uids: Sequence[UUID]) -> tuple[RunResult, ...]:
        """Returns the results of those of the runs that exist, in no order."""

    async def checkpoint(self, scope: Scope, claim: Claim, checkpoint: Checkpoint) -> int | None:
        """Records a step, keeps the claim and clears its lost claims. Returns the run's number of
        signals; None, and no record, if the claim is no longer valid. A step with the same key is
        replaced, unless it is done."""

    async def end(self, scope: Scope, claim: Claim, end: RunEnd) -> bool:
        """Ends a run, or lets it go on with new params and without its steps; False, and no change,
        if the claim is no longer valid. Its message stays claimed."""

    async def assign_version(self, scope: Scope, claim: Claim, uid: UUID, version: str) -> bool:
        """Sets the version of a run that has none; False if the claim is no longer valid."""

    async def diverge(
        self,
        scope: Scope,
        claim: Claim,
        uid: UUID,
        divergence: str | None,
        event: NewMessage | None = None,
    ) -> bool:
        """Notes how a run diverges from its record, or with None that it does not, and publishes
        the event of that; False, and no change, if the claim is no longer valid."""

    async def route(self, scope: Scope, claim: Claim, queue: str) -> bool:
        """Gives up a claim of the message of a run, which then is ready in another shared queue;
        False, and no change, if the claim is no longer valid. `NotFound` for an unknown queue."""

    async def activities(self, scope: Scope, uids: Sequence[UUID]) -> dict[UUID, RunActivity]:
        """Returns which nodes execute these runs now and what they wait for, by uid, of those that
        have a message."""

    async def change(self, scope: Scope, run_id: str, decide: Decision) -> Run:
        """Changes a run as decided, with its message, steps and events, in one transaction, and
        returns it. What `decide` raises changes nothing."""
