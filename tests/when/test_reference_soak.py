"""A million cases and more: every zone, every change in 2020-2037, all nine policies.

``pytest -m soak tests/when -s`` prints progress, and at the end the count.
"""

import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from tests.when import zones
from tests.when.cases import Window, anywhere, around
from tests.when.compare import differences

CASES_MIN = 1_000_000
SEED = 20_371_231
PROCESSES = 2
RULES_PER_CHANGE = 14
#: Every zone gets these as well, so that zones without changes are cases too. (days, rules)
STRETCHES = ((3, 14), (10, 12), (45, 4))
KEPT_PER_ZONE = 5


@dataclass(frozen=True)
class Tally:
    zone: str
    cases: int
    wrong: int
    #: The first few differences of the zone.
    told: tuple[str, ...]


def windows(zone: str, rng: Random) -> Iterator[tuple[Window, int]]:
    for change in zones.transitions(zone):
        yield around(zone, change, rng), RULES_PER_CHANGE
    for days, rules_count in STRETCHES:
        yield anywhere(zone, days, rng), rules_count


def soak(zone: str) -> Tally:
    rng = Random(f"{SEED} {zone}")
    cases = 0
    wrong: list[str] = []
    for window, rules_count in windows(zone, rng):
        for text in differences(window, rules_count, rng):
            cases += 1
            if text is not None:
                wrong.append(text)
    return Tally(zone, cases, len(wrong), tuple(wrong[:KEPT_PER_ZONE]))


@pytest.mark.soak
def test_a_million_cases_agree_with_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    names = zones.all_zones()
    tallies: list[Tally] = []
    context = multiprocessing.get_context("spawn")
    with capsys.disabled():
        kinds = zones.alike(names)
        changes = sum(len(zones.transitions(zone)) for zone in names)
        say(f"\n  {len(names)} zones of {len(kinds)} kinds, {changes:,} changes")
    with capsys.disabled(), context.Pool(PROCESSES) as pool:
        for done, tally in enumerate(pool.imap_unordered(soak, names), start=1):
            tallies.append(tally)
            if done % 25 == 0 or done == len(names):
                seconds = time.monotonic() - started
                say(f"  {done}/{len(names)} zones: {counted(tallies)}, {seconds:.0f} s")
        say(f"reference: {counted(tallies)}")
    assert {tally.zone for tally in tallies if tally.cases} == set(names)
    assert sum(tally.cases for tally in tallies) >= CASES_MIN
    told = [text for tally in tallies for text in tally.told[:1]]
    assert not told, f"{counted(tallies)}; of each zone the first:\n" + "\n".join(told)


def counted(tallies: list[Tally]) -> str:
    cases = sum(tally.cases for tally in tallies)
    wrong = sum(tally.wrong for tally in tallies)
    return f"{cases:,} cases, {wrong:,} differences"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
