"""Numbers and defaults that the docs name are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwork.core.limits import HOPS_MAX
from tickwork.ops.entities import ENTITIES_COUNTED_MAX
from tickwork.ops.queues import COUNTED_MAX, COUNTED_OF_QUEUE_MIN
from tickwork.service.node import TTL_SECONDS
from tickwork.service.scheduler.leadership import HOLD_SECONDS
from tickwork.service.worker.settle import HOPS_WARNED
from tickwork.settings import RUN_ROLES, SERVER_ROLES, Settings

ROOT = Path(__file__).resolve().parents[2]
RUN, UP = ",".join(sorted(RUN_ROLES)), sorted(SERVER_ROLES - RUN_ROLES)


def default(setting: str) -> str:
    """The default of a setting, as pages write it."""
    value = getattr(Settings(), setting)
    return "none" if value is None else f"{value:,}"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("examples/brand_engine/README.md", f"more than {HOPS_WARNED} hops"),
        ("docs/dead-letters.md", f"a chain of {HOPS_MAX} messages led to it"),
        ("docs/glossary.md", f"With {HOPS_MAX} it becomes a dead letter"),
        ("docs/deploy.md", f"takes over within {TTL_SECONDS + HOLD_SECONDS:g} seconds"),
        ("docs/leases.md", f"lead its shards within {TTL_SECONDS + HOLD_SECONDS:g} s"),
        ("docs/console.md", f"at {COUNTED_MAX:,} messages of a state in one queue"),
        ("docs/console.md", f"but at least {COUNTED_OF_QUEUE_MIN:,} for each"),
        ("docs/console.md", f"and at {ENTITIES_COUNTED_MAX:,} entities of a type"),
        ("docs/webhooks.md", f"at once, from each node | {default('host_concurrency')} | `TICK"),
        ("docs/webhooks.md", f"per second, from each node | {default('host_rate_per_second')} | `"),
        (
            "docs/webhooks.md",
            f"at once on a node | {default('delivery_concurrency')} | `TICKWORK_D",
        ),
        ("docs/settings.md", f"`app.run`: `{RUN}`; `tickwork up`, and"),
        ("docs/settings.md", f"lists: also `{','.join(UP)}`"),
    ],
)
def test_a_page_names_the_number_that_the_code_has(page: str, sentence: str) -> None:
    assert sentence in " ".join((ROOT / page).read_text(encoding="utf-8").split())
