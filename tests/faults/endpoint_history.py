"""Checks the deliveries to one endpoint: nothing lost, nothing sent after its success, the order,
no attempt of a retry spent before its time, and numbers that agree with the rows.

A worker that is late, and whose claim has been given away, may still send: its requests, whose
fence is below one that came before, say nothing about order.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tickwork.core.delivery.endpoint import DeliveryStatus, EndpointStats


class Request(NamedTuple):
    """A request that arrived: the number of its event, what its headers say, when it was answered,
    and how."""

    event: int
    attempt: int
    fence: int
    at_seconds: float
    code: int


class Delivery(NamedTuple):
    """A delivery at the end, with the codes of its recorded attempts. `reason` is that of its dead
    letter."""

    event: int
    status: DeliveryStatus
    codes: Sequence[int | None]
    reason: str | None = None


class History(NamedTuple):
    """What was published to an endpoint, in order, and what became of it. `after_success` are the
    events of requests that came when their success was recorded. Without `retry_seconds` the times
    of retries are not judged, because somebody called them earlier."""

    published: Sequence[int]
    requests: Sequence[Request]
    deliveries: Sequence[Delivery]
    after_success: Sequence[int]
    stats: EndpointStats
    failures_in_row: int
    ordered: bool = False
    retry_seconds: Sequence[float] | None = None
    tolerance_seconds: float = 0.0


def faults_of(history: History) -> list[str]:
    """What contradicts the laws; empty if nothing does."""
    faults = [*_lost(history), *_wrong_numbers(history)]
    if history.after_success:
        faults.append(f"sent after their success was recorded: {history.after_success}")
    if history.ordered:
        current = [request.event for request in _current(history.requests)]
        faults += [
            f"{after} came after {event}" for event, after in pairwise(current) if after < event
        ]
    if history.retry_seconds is not None:
        faults += _spent_early(history, history.retry_seconds)
    return faults


def early(requests: Sequence[Request]) -> list[Request]:
    """Requests that repeat an attempt: those of probes, and those whose worker died."""
    seen: set[tuple[int, int]] = set()
    found = []
    for request in requests:
        if (request.event, request.attempt) in seen:
            found.append(request)
        seen.add((request.event, request.attempt))
    return found


def _lost(history: History) -> list[str]:
    faults = []
    if Counter(delivery.event for delivery in history.deliveries) != Counter(history.published):
        faults.append("an event has no delivery, or two of them")
    answers: dict[int, set[int]] = {}
    for request in history.requests:
        answers.setdefault(request.event, set()).add(request.code)
    for delivery in history.deliveries:
        codes, successes = answers.get(delivery.event, set()), sum(map(_is_success, delivery.codes))
        if delivery.status is DeliveryStatus.WAITING:
            faults.append(f"{delivery.event} waits for ever")
        elif delivery.status is DeliveryStatus.DELIVERED and (successes != 1 or 200 not in codes):
            faults.append(
                f"{delivery.event} has {successes} recorded successes; it was answered {codes}"
            )
        elif delivery.status is DeliveryStatus.DEAD and (
            successes or not _is_reason(delivery, codes)
        ):
            faults.append(f"{delivery.event} is dead: {delivery.reason}; it was answered {codes}")
    return faults


def _is_reason(delivery: Delivery, codes: set[int]) -> bool:
    if delivery.reason == "permanent":
        return 422 in codes
    return delivery.reason == "max_retries" and 503 in codes


def _wrong_numbers(history: History) -> list[str]:
    codes = [code for delivery in history.deliveries for code in delivery.codes]
    statuses = Counter(delivery.status for delivery in history.deliveries)
    failed = sum(not _is_success(code) for code in codes)
    stats = history.stats
    faults = []
    if (stats.waiting, stats.delivered, stats.dead) != tuple(
        statuses[status] for status in DeliveryStatus
    ):
        faults.append(f"{stats} does not agree with {statuses}")
    if (stats.attempts, stats.failed_attempts) != (len(codes), failed):
        faults.append(f"{stats} does not agree with {failed} failures in {len(codes)} attempts")
    if failed == len(codes) and history.failures_in_row != failed:
        faults.append(f"{history.failures_in_row} failures in a row, and {failed} attempts")
    return faults


def _current(requests: Sequence[Request]) -> list[Request]:
    """The requests of claims that were valid when they were sent."""
    fences: dict[int, int] = {}
    found = []
    for request in requests:
        if request.fence >= fences.get(request.event, 0):
            fences[request.event] = request.fence
            found.append(request)
    return found


def _spent_early(history: History, retry_seconds: Sequence[float]) -> list[str]:
    """Attempts that were spent before their time. The last request with a number spent it."""
    faults = []
    by_event: dict[int, list[Request]] = {}
    for request in history.requests:
        by_event.setdefault(request.event, []).append(request)
    ended = {record.event: record for record in history.deliveries}
    for event, requests in by_event.items():
        spent = {
            request.attempt: request
            for request in sorted(requests, key=lambda request: request.fence)
        }
        delivery = ended.get(event)
        # The receiver may not see a request that came to nothing: it has no code.
        unseen = 0 if delivery is None else sum(code is None for code in delivery.codes)
        missing = {*range(1, max(spent) + 1)} - {*spent}
        if [*spent] != sorted(spent) or len(missing) > unseen:
            faults.append(f"{event} had the attempts {[*spent]}")
            continue
        if delivery is not None and delivery.reason == "max_retries":
            attempts = len(retry_seconds) + 1
            if not attempts - unseen <= max(spent) <= attempts:
                faults.append(f"{event} is dead after {max(spent)} attempts")
        for before, after in pairwise(spent.values()):
            if after.attempt > before.attempt + 1 or after.code != 503:
                continue  # A probe that succeeds, or is refused for good, may come early.
            waited = after.at_seconds - before.at_seconds
            least = retry_seconds[before.attempt - 1] - history.tolerance_seconds
            if waited < least:
                faults.append(f"{event} lost attempt {after.attempt} after {waited:.3f} seconds")
    return faults


def _is_success(code: int | None) -> bool:
    return code is not None and 200 <= code < 300
