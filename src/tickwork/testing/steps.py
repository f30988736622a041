"""Steps of workflows under the harness: replaced by mocks, and interrupted by crashes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import structs

from tickwork.app.declarations import Registry
from tickwork.app.message import ClaimedMessage
from tickwork.service.observe import Observer
from tickwork.store.contract import Store
from tickwork.testing.clock import VirtualClock
from tickwork.workflow.consumer import WorkflowConsumers, workflow_consumers
from tickwork.workflow.do_steps import Crashed
from tickwork.workflow.work import Done, Identity, Work, carry_out

_NUMBERED = re.compile(r"(.*?)(?:#\d+|\[.*\])?", re.DOTALL)


class HarnessSteps:
    """The steps that runs make under the harness.

    A boundary is a point at which a crash differs from one at another point: before each attempt at
    a step, before its result is recorded, and before the body gets it.
    """

    def __init__(self) -> None:
        self._mocks: dict[str, Callable[..., Any]] = {}
        self._crash_at: int | None = None
        self.boundaries: list[tuple[str, str]] = []
        """The boundaries that runs have passed: `start`, `done` or `recorded`, and the step."""
        self.crashes = 0
        """How often a run has crashed."""

    def mock(self, name: str, result: object = None) -> None:
        """Replaces the function of all steps with this name or key by a result, or by a function
        with the same arguments, which may raise."""
        self._mocks[name] = result if callable(result) else lambda *_: result

    def crash_after(self, boundaries: int) -> None:
        """Lets the run that passes this boundary next crash there, once: 1 is the next one. What it
        has recorded is kept, and it starts again."""
        self._crash_at = len(self.boundaries) + boundaries

    def consumers(
        self, store: Store, registry: Registry, clock: VirtualClock, observer: Observer
    ) -> WorkflowConsumers:
        """The consumers of the app's workflows."""
        return workflow_consumers(
            store,
            registry.workflows,
            monotonic=clock.monotonic,
            observer=observer,
            carry_out=self._carry_out,
            at_boundary=self._at_boundary,
        )

    async def _carry_out(
        self, work: Work, identity: Identity, message: ClaimedMessage[Any]
    ) -> Done:
        key, base = identity.key, _NUMBERED.fullmatch(identity.key)
        mock = self._mocks.get(key) or self._mocks.get(base[1] if base else key)
        mocked = structs.replace(work, function=mock) if mock else work
        return await carry_out(mocked, identity, message)

    def _at_boundary(self, boundary: str, key: str) -> None:
        self.boundaries.append((boundary, key))
        if len(self.boundaries) == self._crash_at:
            self._crash_at = None
            self.crashes += 1
            raise Crashed
