"""A rolling deploy back and forth between two versions of a workflow, while workers are killed:
each effect happens once, and every run ends."""

from collections import Counter
from itertools import cycle

import msgspec
import pytest

from tests.faults.open_store import opened
from tests.faults.programs import deploys
from tests.kit.process import Child, Children
from tests.kit.soak import is_soak
from tests.kit.waiting import delay, eventually
from tests.stores.home import Home
from tickwork.core.message.system_events import RUN_DIVERGED
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.core.workflow.model import RunSelection, RunStatus
from tickwork.ops.context import Context
from tickwork.ops.workflows import RunStart, ensure_workflow, start_runs
from tickwork.store.contract import Store

RUNS = 200 if is_soak() else 20
ROUNDS = 8 if is_soak() else 2
ROUND_SECONDS = 1.0
END_SECONDS = 180.0
DIVERGED = "diverged"
CODES = {"1": "charge", "2": "bill"}


async def unended(store: Store) -> int:
    selection = RunSelection(status=RunStatus.RUNNING)
    return len(await store.workflows.list(DEFAULT, selection, RUNS))


async def effects_of(store: Store) -> Counter[tuple[str, str]]:
    found = await store.messages.peek(DEFAULT, deploys.EFFECTS, 10 * RUNS)
    bodies = [msgspec.json.decode(message.body) for message in found]
    return Counter((body["run"], body["what"]) for body in bodies)


@pytest.mark.parametrize(
    ("home", "is_versioned"),
    [
        pytest.param("sqlite", True, id="sqlite-versions"),
        pytest.param("postgres", False, id="postgres-no versions"),
        pytest.param("postgres", True, id="postgres-versions", marks=pytest.mark.soak),
        pytest.param("sqlite", False, id="sqlite-no versions", marks=pytest.mark.soak),
    ],
    indirect=["home"],
)
async def test_two_versions_side_by_side_do_each_effect_once(
    home: Home, children: Children, is_versioned: bool
) -> None:
    def spawn(version: str) -> Child:
        declared = version if is_versioned else deploys.NO_VERSION
        return children.spawn(deploys.PROGRAM, home.url, CODES[version], declared)

    async with opened(home.url) as store:
        for queue in (deploys.EFFECTS, DIVERGED):
            await store.queues.put(DEFAULT, queue, QueueSettings())
        await store.subscriptions.put(DEFAULT, RUN_DIVERGED, DIVERGED)
        for version in (None, *CODES):
            await ensure_workflow(store, deploys.WORKFLOW, version)
        nodes = {version: spawn(version) for version in CODES}
        started = 0
        for round_, version in zip(range(ROUNDS), cycle(CODES), strict=False):
            share = RUNS // ROUNDS
            runs = [
                RunStart(
                    workflow=deploys.WORKFLOW,
                    id=f"order-{started + number}",
                    version=version if is_versioned and round_ % 4 < 2 else None,
                )
                for number in range(share)
            ]
            await start_runs(Context(store, DEFAULT), runs)
            started += share
            await delay(ROUND_SECONDS)
            nodes[version].kill9()
            await delay(ROUND_SECONDS)
            nodes[version] = spawn(version)

        async def all_have_ended() -> bool:
            return await unended(store) == 0

        await eventually(all_have_ended, timeout_seconds=END_SECONDS, what="the end of all runs")
        whats = ("paid", "packed", "billed", "shipped")
        wanted = {(f"order-{number}", what): 1 for number in range(started) for what in whats}
        assert await effects_of(store) == wanted
        ended = await store.workflows.list(DEFAULT, RunSelection(), RUNS)
        assert {run.status for run in ended} == {RunStatus.COMPLETED}
        if is_versioned:  # No run meets the code of the other version.
            assert await store.messages.peek(DEFAULT, DIVERGED, 1) == ()
