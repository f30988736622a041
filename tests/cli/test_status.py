"""`tickwork status`: what is wrong, worst first, and an exit status for scripts."""

from __future__ import annotations

import json

from tests.cli.kit import Desk
from tests.cli.test_dead import bury
from tickwork.core.health import Check


def test_problems_are_listed_with_what_to_do_and_errors_exit_with_1(desk: Desk) -> None:
    desk.store(bury)
    found = desk.run("status", "--check", "queues")
    assert (found.exit_code, found.stderr) == (1, "")
    assert found.stdout.splitlines() == [
        "error    Queue emails has 3 dead letters.",
        "         Look at their errors, repair and replay them: tickwork dead groups emails.",
    ]
    desk.answer("dead", "discard", "emails", "--yes")
    desk.answer("queues", "pause", "emails")
    warned = desk.answer("status", "--check", "queues", "--check", "runs")
    assert warned.startswith("warning  Queue emails is paused.")
    desk.answer("queues", "resume", "emails")
    well = desk.answer("status", "--check", "queues", "--check", "runs")
    assert well == "All is well. Checked: queues, runs.\n"


def test_all_checks_are_made_and_shown_as_json(desk: Desk) -> None:
    desk.answer("migrate")
    found = desk.run("status", "--json")
    assert found.exit_code == 1
    health = json.loads(found.stdout)
    assert health["checked"] == [*Check]
    assert [problem["code"] for problem in health["problems"]] == ["no_scheduler", "no_worker"]
    refused = desk.run("status", "--check", "queue")
    assert refused.exit_code == 2
    assert "check" in refused.stderr
