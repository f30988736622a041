"""The table of a day's capacity in the documentation is what the command computes."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from tickwork.cli import app
from tickwork.core.queue.capacity import plan_day

PAGE = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text("utf-8")


def test_the_table_of_a_day_is_computed() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| 10")]
    assert len(rows) == 5
    for users, seconds, at_once, limit, cost, *computed in rows:
        plan = plan_day(
            users=int(users),
            seconds=float(seconds),
            at_once=int(at_once),
            limit_per_day=float(limit),
            cost_per_user=float(cost),
        )
        numbers = (plan.one_by_one_seconds, plan.seconds_needed, plan.users_per_day)
        shown = [f"{number:.10g}" for number in numbers]
        assert computed == [*shown, plan.limited_by, f"{plan.headroom:g}"]


def test_the_answer_of_what_if_is_what_the_command_prints() -> None:
    found = re.search(r"\$ tickwork (what-if .*)\n((?:.*\n)*?)```", PAGE)
    assert found is not None
    assert CliRunner().invoke(app, found[1].split()).stdout == found[2]
