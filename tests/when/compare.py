"""Compares the product with the reference for one case and describes the differences."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

from tests.when import reference
from tests.when.cases import Spec, Window, rules
from tickwork.core import when
from tickwork.errors import TickworkError

LIMITS = when.Limits(min_interval_seconds=1)


def product_rule(spec: Spec, zone: str, gap: str, overlap: str) -> when.Rule:
    return _parsed(json.dumps(spec), zone, gap, overlap)


@lru_cache(maxsize=10_000)
def _parsed(spec: str, zone: str, gap: str, overlap: str) -> when.Rule:
    whole = {**json.loads(spec), "timezone": zone, "dst": {"gap": gap, "overlap": overlap}}
    return when.parse(whole, limits=LIMITS)


def differences(window: Window, rules_count: int, rng: Random) -> Iterator[str | None]:
    """Every rule of a window under all nine policies: a text for a difference, None for none."""
    walk = reference.Walk(ZoneInfo(window.zone), window.start, window.end)
    for spec in rules(window, rules_count, rng):
        meeting = reference.meet(reference.read(spec), walk)
        for policy in reference.POLICIES:
            yield difference(window, spec, policy, meeting.slots(*policy))


def difference(
    window: Window, spec: Spec, policy: tuple[str, str], expected: list[datetime]
) -> str | None:
    try:
        rule = product_rule(spec, window.zone, *policy)
    except TickworkError as refusal:
        return f"{spec} in {window.zone}, gap={policy[0]} overlap={policy[1]}: refused, {refusal}"
    got = when.slots_between(rule, window.start, window.end)
    same = got == expected and all(one.tzinfo is UTC for one in got)
    return None if same else told(window, spec, policy, expected, got)


def lawless(window: Window, spec: Spec, policy: tuple[str, str]) -> str | None:
    """slots_between, next_after taken again and again, and count_between must agree."""
    rule = product_rule(spec, window.zone, *policy)
    slots = when.slots_between(rule, window.start, window.end)
    stepped: list[datetime] = []
    at = when.next_after(rule, window.start)
    while at is not None and at <= window.end and len(stepped) <= len(slots):
        stepped.append(at)
        at = when.next_after(rule, at)
    if stepped != slots:
        return "next_after, iterated: " + told(window, spec, policy, slots, stepped)
    count = when.count_between(rule, window.start, window.end)
    if count != len(slots):
        return f"count_between is {count}: " + told(window, spec, policy, slots, stepped)
    return None


def told(
    window: Window,
    spec: Spec,
    policy: tuple[str, str],
    expected: list[datetime],
    got: list[datetime],
) -> str:
    zone = ZoneInfo(window.zone)

    def listed(slots: list[datetime]) -> str:
        return ", ".join(f"{one:%m-%dT%H:%M:%SZ} ({one.astimezone(zone):%H:%M%z})" for one in slots)

    missing = [one for one in expected if one not in got]
    surplus = [one for one in got if one not in expected]
    change = f"{window.about.wall_before} -> {window.about.wall_after}" if window.about else "none"
    return (
        f"{spec} in {window.zone}, gap={policy[0]} overlap={policy[1]}, "
        f"{window.start.isoformat()} < slot <= {window.end.isoformat()}, change {change}\n"
        f"  missing:  {listed(missing)}\n  surplus:  {listed(surplus)}\n"
        f"  expected: {listed(expected[:40])}\n  got:      {listed(got[:40])}"
    )
