"""Laws over a history. Pure functions; each returns its violations, none meaning that it holds.

Contract: no false alarm. An operation took effect somewhere between its `invoke` and its `ok`
(an event without a call: at its own time), and only what holds for every such moment is reported.
An operation without an answer may have happened or not. The vocabulary, one event per message:

| op                       | facts                               | meaning                       |
| ------------------------ | ----------------------------------- | ----------------------------- |
| `send`                   | message                             | ok: accepted                  |
| `send` (with a key)      | key, list, place, of the invoke     | a list is stored in its order |
| `claim`                  | message, claim, until_ns (optional) | ok: held under this number    |
| `extend`                 | message, claim, until_ns            | ok: held until then           |
| `settle` `release`       | message, claim, also of the invoke  | ok: the holder ended it       |
| `expire`                 | message, claim                      | info or ok: it ended by time  |
| `effect`                 | input                               | ok or info: seen to happen    |

A claim without `until_ns`, end or expiry is held for ever.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

import msgspec

from tests.kit.history import Event

FOR_EVER_NS = 1 << 63
HOLDER_OPS = frozenset({"extend", "settle", "release"})
END_OPS = frozenset({"settle", "release", "expire"})


class Violation(msgspec.Struct, frozen=True):
    law: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.law}: {self.sentence}"


@dataclass(frozen=True)
class _Done:
    """An operation of the history that is known to have happened, and its earliest time."""

    event: Event
    invoked_ns: int

    @property
    def done_ns(self) -> int:
        return self.event.at_ns

    @property
    def message(self) -> str:
        return self.event.text("message")

    @property
    def claim(self) -> int:
        return self.event.number("claim")


@dataclass(frozen=True)
class _Holding:
    """A claim, and the time in which it was certainly held."""

    granted: _Done
    end_ns: int

    def __str__(self) -> str:
        event = self.granted.event
        end = "for ever" if self.end_ns == FOR_EVER_NS else f"until {self.end_ns} ns"
        return f"claim {self.granted.claim} of {event.process} (from {event.at_ns} ns {end})"


def accepted(history: Iterable[Event], *, op: str = "send", fact: str = "message") -> list[str]:
    """The ids that were answered with ok."""
    return [event.text(fact) for event in history if event.op == op and event.kind == "ok"]


def nothing_lost(accepted: Iterable[str], found: Iterable[str]) -> list[Violation]:
    """Every accepted message is there."""
    present = set(found)
    return [
        Violation("nothing_lost", f"{identity} was accepted and is nowhere")
        for identity in dict.fromkeys(accepted)
        if identity not in present
    ]


def nothing_twice(found: Iterable[str]) -> list[Violation]:
    """Every message is there once."""
    return [
        Violation("nothing_twice", f"{identity} is there {count} times")
        for identity, count in Counter(found).items()
        if count > 1
    ]


def effects_once(inputs: Iterable[str], history: Iterable[Event]) -> list[Violation]:
    """Each input has exactly one effect, and nothing else has more than one."""
    effects = Counter(
        event.text("input")
        for event in history
        if event.op == "effect" and event.kind in ("ok", "info")
    )
    expected = set(inputs)
    return [
        Violation("effects_once", f"input {identity} had {effects[identity]} effects")
        for identity in sorted(expected | effects.keys())
        if effects[identity] > 1 or (identity in expected and not effects[identity])
    ]


def at_most_one_live_claim(history: Sequence[Event]) -> list[Violation]:
    """No two claims of a message are held at the same moment."""
    violations = []
    for message, holdings in _holdings(history).items():
        longest, *others = sorted(holdings, key=lambda holding: holding.granted.done_ns)
        for holding in others:
            if holding.granted.done_ns < min(longest.end_ns, holding.end_ns):
                sentence = f"{message} was held twice at once: {longest} and {holding}"
                violations.append(Violation("at_most_one_live_claim", sentence))
            longest = max(longest, holding, key=lambda claim: claim.end_ns)
    return violations


def held_at_most(history: Sequence[Event], fact: str, most: int) -> list[Violation]:
    """Of the claims with the same `fact`, no more than the maximum are held at the same moment."""
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for holdings in _holdings(history).values():
        for holding in holdings:
            begin_ns, end_ns = holding.granted.done_ns, holding.end_ns
            # A claim that may have ended before its response was certainly held at no moment.
            if fact in holding.granted.event.facts and begin_ns < end_ns:
                changes[holding.granted.event.text(fact)] += [(begin_ns, 1), (end_ns, -1)]
    violations = []
    for name, moments in changes.items():
        held = 0
        for at_ns, change in sorted(moments):
            held += change
            if change > 0 and held > most:
                sentence = f"{held} of {fact} {name} were held at {at_ns} ns, not {most}"
                violations.append(Violation("held_at_most", sentence))
    return violations


def handed_out_in_order(history: Sequence[Event]) -> list[Violation]:
    """No message of a key is claimed before those sent before it have ended."""
    alive: dict[str, int] = {}
    handed: dict[str, int] = {}
    for done in _done(history):
        if done.event.op in ("claim", *HOLDER_OPS):
            alive[done.message] = max(done.invoked_ns, alive.get(done.message, 0))
        if done.event.op == "claim":
            handed[done.message] = min(done.done_ns, handed.get(done.message, FOR_EVER_NS))
    return _overtaken("handed_out_in_order", history, alive, handed)


def ended_in_order(history: Sequence[Event], ended: Mapping[str, Any]) -> list[Violation]:
    """The messages of a key ended in the order they were sent; `ended` has the times."""
    return _overtaken("ended_in_order", history, ended, ended)


def claims_rise(history: Sequence[Event]) -> list[Violation]:
    """Every claim of a message has a higher number than those before it."""
    violations = []
    for message, claims in _by_message(history).items():
        ordered = sorted(claims, key=lambda claim: (claim.claim, claim.done_ns))
        higher_ns = FOR_EVER_NS  # when the first of the higher ones was granted
        for lower, higher in reversed(list(pairwise(ordered))):
            higher_ns = min(higher_ns, higher.done_ns)
            is_same = lower.claim == higher.claim
            if is_same or higher_ns < lower.invoked_ns:
                what = "was given twice" if is_same else "came after a higher one"
                sentence = f"claim {lower.claim} of {message} {what} ({lower.event.process})"
                violations.append(Violation("claims_rise", sentence))
    return violations


def refused_after_loss(history: Sequence[Event]) -> list[Violation]:
    """Once a newer claim is granted, the holder of an older one changes nothing."""
    claims = _by_message(history)
    violations = []
    for done in _done(history):
        if done.event.op not in HOLDER_OPS:
            continue
        lost_ns = _earliest_granted(claims.get(done.message, []), above=done.claim)
        if lost_ns < done.invoked_ns:
            sentence = (
                f"{done.event.process} was allowed to {done.event.op} {done.message} under claim "
                f"{done.claim} at {done.done_ns} ns, though a newer claim was there at {lost_ns} ns"
            )
            violations.append(Violation("refused_after_loss", sentence))
    return violations


@dataclass(frozen=True)
class _Sent:
    """A sent message with a key; unanswered for ever if its result is unknown."""

    message: str
    key: str
    together: str
    place: int
    invoked_ns: int
    done_ns: int


def _sent(history: Sequence[Event]) -> Iterator[_Sent]:
    answered = {
        (event.process, event.pid, event.call): event.at_ns
        for event in history
        if event.op == "send" and event.kind == "ok"
    }
    for event in history:
        if event.op == "send" and event.kind == "invoke" and "key" in event.facts:
            done_ns = answered.get((event.process, event.pid, event.sequence), FOR_EVER_NS)
            yield _Sent(
                message=event.text("message"),
                key=event.text("key"),
                together=event.text("list"),
                place=event.number("place"),
                invoked_ns=event.at_ns,
                done_ns=done_ns,
            )


def _overtaken(
    law: str, history: Sequence[Event], until: Mapping[str, Any], since: Mapping[str, Any]
) -> list[Violation]:
    """Messages that progressed (`since`) while one sent before them was still there (`until`)."""
    by_key = attrgetter("key")
    violations = []
    for _, group in groupby(sorted(_sent(history), key=by_key), by_key):
        own = [*group]
        pairs = [*_after_answers(own, until), *_within_lists(own, until)]
        violations += [
            Violation(law, f"{later.message} of key {later.key} overtook {earlier.message}")
            for earlier, later in pairs
            if later.message in since and until[earlier.message] > since[later.message]
        ]
    return violations


def _after_answers(own: Sequence[_Sent], until: Mapping[str, Any]) -> Iterator[tuple[_Sent, _Sent]]:
    """Each message with the longest-lived of all that were sent before it."""
    earlier = sorted((sent for sent in own if sent.message in until), key=attrgetter("done_ns"))
    answers = [sent.done_ns for sent in earlier]
    longest: list[_Sent] = []
    for sent in earlier:
        is_longer = not longest or until[sent.message] > until[longest[-1].message]
        longest.append(sent if is_longer else longest[-1])
    for later in own:
        if before := bisect_left(answers, later.invoked_ns):
            yield longest[before - 1], later


def _within_lists(own: Sequence[_Sent], until: Mapping[str, Any]) -> Iterator[tuple[_Sent, _Sent]]:
    """Each message with the longest-lived of those before it in its list."""
    ordered = sorted(own, key=attrgetter("together", "place"))
    for _, group in groupby(ordered, attrgetter("together")):
        longest: _Sent | None = None
        for sent in group:
            if longest is not None:
                yield longest, sent
            if sent.message in until and (
                longest is None or until[sent.message] > until[longest.message]
            ):
                longest = sent


def _done(history: Sequence[Event]) -> Iterator[_Done]:
    invoked = {
        (event.process, event.pid, event.sequence): event.at_ns
        for event in history
        if event.kind == "invoke"
    }
    for event in history:
        if event.kind == "ok" and event.call is not None:
            yield _Done(event, invoked[event.process, event.pid, event.call])
        elif event.kind in ("ok", "info"):
            yield _Done(event, event.at_ns)


def _by_message(history: Sequence[Event]) -> dict[str, list[_Done]]:
    claims: dict[str, list[_Done]] = defaultdict(list)
    for done in _done(history):
        if done.event.op == "claim":
            claims[done.message].append(done)
    return claims


def _earliest_granted(claims: Iterable[_Done], *, above: int) -> int:
    return min((claim.done_ns for claim in claims if claim.claim > above), default=FOR_EVER_NS)


def _holdings(history: Sequence[Event]) -> dict[str, list[_Holding]]:
    ends: dict[tuple[str, int], int] = {}
    until: dict[tuple[str, int], int] = {}
    for message, claim, at_ns in _possible_ends(history):
        ends[message, claim] = min(at_ns, ends.get((message, claim), FOR_EVER_NS))
    for done in _done(history):
        if done.event.op in ("claim", "extend") and "until_ns" in done.event.facts:
            key = (done.message, done.claim)
            until[key] = max(done.event.number("until_ns"), until.get(key, 0))
    return {
        message: [_Holding(grant, _end_ns(ends, until, (message, grant.claim))) for grant in claims]
        for message, claims in _by_message(history).items()
    }


def _end_ns(
    ends: dict[tuple[str, int], int], until: dict[tuple[str, int], int], key: tuple[str, int]
) -> int:
    return min(ends.get(key, FOR_EVER_NS), until.get(key, FOR_EVER_NS))


def _possible_ends(history: Sequence[Event]) -> Iterator[tuple[str, int, int]]:
    """Every time from which a claim may have ended, including ends without a response."""
    refused = {(e.process, e.pid, e.call) for e in history if e.kind == "fail"}
    for event in history:
        identity = (event.process, event.pid, event.sequence)
        is_open = event.kind == "invoke" and identity not in refused and "claim" in event.facts
        if event.op in END_OPS and is_open:
            yield event.text("message"), event.number("claim"), event.at_ns
    for done in _done(history):
        if done.event.op in END_OPS:
            yield done.message, done.claim, done.invoked_ns
