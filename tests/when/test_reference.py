"""The product fires exactly when the reference does: a seeded sample, quick enough for every run.

The soak (``test_reference_soak.py``) does the same over every zone and every change.
"""

from random import Random

import pytest

from tests.when import reference, zones
from tests.when.cases import anywhere, around, rules
from tests.when.compare import differences, lawless, product_rule
from tickwork.errors import InvalidInput

SEED = 20_200_101
#: Zones whose changes are unlike the common hour at two in the morning.
ODD_ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "America/Havana", "America/Nuuk", "America/Santiago",
    "America/Scoresbysund", "America/New_York", "Antarctica/Casey", "Antarctica/Troll",
    "Asia/Beirut", "Asia/Gaza", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe",
    "Europe/Berlin", "Europe/Dublin", "Pacific/Chatham", "Pacific/Easter", "America/Asuncion",
)  # fmt: skip
CHANGES_PER_ZONE = 2
RULES_PER_WINDOW = 6


def sampled_zones() -> list[str]:
    others = sorted(set(zones.all_zones()) - set(ODD_ZONES))
    return [*ODD_ZONES, *Random(SEED).sample(others, 12)]


def test_every_zone_is_accepted_and_other_names_are_refused() -> None:
    for zone in zones.all_zones():
        product_rule({"cron_expr": "0 9 * * *"}, zone, "run_after", "first")
    for name in sorted(zones.NO_ZONES):
        with pytest.raises(InvalidInput):
            product_rule({"cron_expr": "0 9 * * *"}, name, "run_after", "first")


@pytest.mark.parametrize("zone", sampled_zones())
def test_slots_are_those_of_the_reference(zone: str) -> None:
    rng = Random(f"{SEED} {zone}")
    changes = zones.transitions(zone)
    picked = rng.sample(changes, min(CHANGES_PER_ZONE, len(changes)))
    windows = [around(zone, change, rng) for change in picked]
    windows.append(anywhere(zone, 6, rng))
    found = [
        difference
        for window in windows
        for difference in differences(window, RULES_PER_WINDOW, rng)
    ]
    wrong = [text for text in found if text is not None]
    assert not wrong, f"{len(wrong)} of {len(found)} cases differ; the first:\n{wrong[0]}"


@pytest.mark.parametrize("zone", sampled_zones())
def test_slots_between_is_next_after_iterated_and_count_is_its_length(zone: str) -> None:
    rng = Random(f"law {SEED} {zone}")
    changes = zones.transitions(zone)
    picked = rng.sample(changes, min(2, len(changes)))
    windows = [around(zone, change, rng) for change in picked] or [anywhere(zone, 3, rng)]
    for window in windows:
        for spec in rules(window, 6, rng):
            for policy in reference.POLICIES:
                wrong = lawless(window, spec, policy)
                assert wrong is None, wrong
