"""Any sequence of operations gives the same results on the model, SQLite and PostgreSQL."""

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.state_machine import StoreMachine
from tests.stores.open_homes import Homes

BOUNDED = settings(
    max_examples=8,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[*HealthCheck],
    phases=[Phase.generate, Phase.shrink],
)
LONG = settings(
    BOUNDED, max_examples=500, stateful_step_count=100, derandomize=False, print_blob=True
)


def compare(homes: Homes, how: settings) -> None:
    # Hypothesis is annotated to want a class, but takes any callable that returns a machine.
    make: Any = partial(StoreMachine, homes)
    run_state_machine_as_test(make, settings=how)


def test_all_stores_behave_like_the_model(homes: Homes) -> None:
    compare(homes, BOUNDED)


@pytest.mark.soak
def test_all_stores_behave_like_the_model_in_long_runs(homes: Homes) -> None:
    compare(homes, LONG)
