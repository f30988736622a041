"""Checks what a campaign left behind, by its history and by the tables themselves."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tests.faults import tables
from tests.faults.programs.worker import INPUTS, OUTPUTS
from tests.kit import checkers
from tests.kit.checkers import Violation
from tests.kit.history import Event


async def judged(url: str, history: Sequence[Event]) -> list[Violation]:
    """Every violated law."""
    outputs = await tables.outputs_in(url, OUTPUTS)
    dead = await tables.dead_of(url)
    waiting = await tables.inputs_in(url, INPUTS)
    effects = await tables.effects_of(url)
    causes = [cause for cause, _ in outputs]
    found = [*causes, *dead, *waiting]
    return [
        *checkers.nothing_lost(checkers.accepted(history), found),
        *checkers.nothing_twice(found),
        *_nothing_from_nowhere(history, found),
        *_joined(effects, [cause for cause, way in outputs if way == "joint"]),
        *checkers.effects_once(causes, [*history, *_as_events(outputs, effects)]),
        *judged_claims(history),
    ]


def judged_claims(history: Sequence[Event]) -> list[Violation]:
    """The laws of claims; a claim of a reaped node may have ended with it."""
    whole = with_expiries(history)
    return [
        *checkers.at_most_one_live_claim(whole),
        *checkers.claims_rise(whole),
        *checkers.refused_after_loss(whole),
    ]


def with_expiries(history: Sequence[Event]) -> list[Event]:
    """A history that includes the ends of claims with the end of their node."""
    return sorted([*history, *_expiries(history)], key=lambda event: event.at_ns)


def _nothing_from_nowhere(history: Iterable[Event], found: Iterable[str]) -> Iterator[Violation]:
    asked = {event.text("message") for event in history if event.op == "send"}
    for identity in set(found) - asked:
        yield Violation("nothing_from_nowhere", f"{identity} is there and nobody sent it")


def _joined(effects: Iterable[str], joint: Iterable[str]) -> Iterator[Violation]:
    """A joint settlement's own row and its send both exist or neither does."""
    for identity, count in (Counter(effects) - Counter(joint)).items():
        yield Violation("joined", f"{identity} has {count} effects without a message")
    for identity, count in (Counter(joint) - Counter(effects)).items():
        yield Violation("joined", f"{identity} has {count} messages without their effect")


def _as_events(outputs: Iterable[tuple[str, str]], effects: Iterable[str]) -> Iterator[Event]:
    """Effects found in the tables: rows of joint settlements, messages of plain ones."""
    plain = [cause for cause, way in outputs if way == "plain"]
    for identity in [*effects, *plain]:
        yield Event(
            at_ns=0, pid=0, process="table", sequence=0, kind="info", op="effect",
            facts={"input": identity},
        )  # fmt: skip


def _expiries(history: Sequence[Event]) -> Iterator[Event]:
    """From when on a claim may have ended because its node was reaped or released it."""
    began = {(e.process, e.pid, e.sequence): e.at_ns for e in history if e.kind == "invoke"}
    reaped: dict[str, int] = {}
    given_back: dict[str, list[int]] = {}
    for event in history:
        if event.op == "reap" and event.kind == "ok" and event.call is not None:
            reaped[event.text("node")] = began[event.process, event.pid, event.call]
        elif event.op == "giving_back":
            given_back.setdefault(event.text("node"), []).append(event.at_ns)
    for claim in history:
        if claim.op == "claim" and claim.kind == "ok":
            node = claim.text("node")
            later = [at_ns for at_ns in given_back.get(node, []) if at_ns > claim.at_ns]
            ends = [*later[:1], *([reaped[node]] if node in reaped else [])]
            if ends:
                facts = {name: claim.facts[name] for name in ("message", "claim")}
                yield msgspec.structs.replace(
                    claim, at_ns=min(ends), kind="info", op="expire", call=None, facts=facts
                )
