"""A process tunes itself only if it is our own, and never weakens stronger settings."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from tests.kit.process import Children
from tickwork.facade.app import Tickwork
from tickwork.service.process_lifecycle import GC_THRESHOLD, SWITCH_INTERVAL_SECONDS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), (SWITCH_INTERVAL_SECONDS, GC_THRESHOLD)),
        ((1, 1), (SWITCH_INTERVAL_SECONDS, GC_THRESHOLD)),
        ((0.000125, 100_000), (0.000125, 100_000)),
        ((1, 0), (SWITCH_INTERVAL_SECONDS, 0)),
    ],
)
async def test_a_process_of_our_own_is_tuned(
    children: Children, tmp_path: Path, before: tuple[float, ...], after: tuple[float, int]
) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    child = children.spawn("tests.service.programs.print_tuning", url, *map(str, before))
    await child.line(f"settings {after[0]:g} {after[1]}")
    await child.succeeded()


async def test_somebody_elses_process_is_left_as_it_is(tmp_path: Path) -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    app = Tickwork(f"sqlite:///{tmp_path / 'own.db'}")
    async with app.running():
        assert (sys.getswitchinterval(), gc.get_threshold()) == before
