"""A node's memory levels off under mixed work: its caches are bounded by what they are worth."""

from __future__ import annotations

import pytest

from tests.kit.process import Children
from tests.service.programs import mixed_work
from tests.stores.home import Home

SOAK_MINUTES = 30.0
SAMPLES = 30
GROWTH_MIB_MAX = 3.0
"""Most by which memory may grow from the second third of the run to the last."""


@pytest.mark.soak
async def test_a_nodes_memory_levels_off(home: Home, children: Children) -> None:
    child = children.spawn(mixed_work.PROGRAM, home.url, str(SOAK_MINUTES), str(SAMPLES))
    await child.succeeded(SOAK_MINUTES * 60 * 2)
    samples = [float(line) for line in child.lines()]
    third = len(samples) // 3
    growth = max(samples[-third:]) - max(samples[third : 2 * third])
    assert growth <= GROWTH_MIB_MAX, samples
