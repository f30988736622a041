"""With a safeguard off its checker reports a violation; with all of them on, none does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import scenarios
from tests.mutants.cluster import Cluster, made
from tests.mutants.mutations import MUTANTS, Mutant
from tests.stores.home import KINDS, Kind
from tests.stores.open_homes import Homes
from tickwork.testing.checkers import CHECKERS, History, find_violations

MUTANTS_MIN = 8
LOCKS = (scenarios.taken_in_mid_write, scenarios.renewed_in_mid_take)
"""Scenarios with two concurrent writers, which SQLite does not have."""

STORIES = [
    pytest.param(
        story,
        kind,
        id=f"{story.__name__}-{kind}",
        marks=[] if kind == "sqlite" or story in LOCKS else [pytest.mark.soak],
    )
    for story in scenarios.ALL
    for kind in KINDS
    if kind == "postgres" or story not in LOCKS
]
CASES = [
    pytest.param(
        mutant,
        kind,
        id=f"{mutant.name}-{kind}",
        marks=[] if kind == mutant.first_kind else [pytest.mark.soak],
    )
    for mutant in MUTANTS
    for kind in mutant.kinds
]


def seen_by(history: History) -> set[str]:
    """The checkers that report something."""
    return {checker.__name__ for checker in CHECKERS if [*checker(history)]}


@pytest.mark.parametrize(("story", "kind"), STORIES)
async def test_no_checker_reports_a_violation_with_all_safeguards_on(
    story: Callable[[Cluster], Any], kind: Kind, homes: Homes, tmp_path: Path
) -> None:
    async with homes.take(kind) as home, made(home, tmp_path, lambda store: store) as cluster:
        await story(cluster)
        assert find_violations(await cluster.history()) == ()


@pytest.mark.parametrize(("mutant", "kind"), CASES)
async def test_a_checker_reports_each_safeguard_that_is_off(
    mutant: Mutant, kind: Kind, homes: Homes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.patch(monkeypatch)
    async with homes.take(kind) as home, made(home, tmp_path, mutant.twist) as cluster:
        await mutant.story(cluster)
        assert mutant.caught_by in seen_by(await cluster.history())


def test_every_checker_is_proven_by_a_mutant() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN
    assert {mutant.story for mutant in MUTANTS} <= {*scenarios.ALL}
    assert {mutant.caught_by for mutant in MUTANTS} == {checker.__name__ for checker in CHECKERS}
