"""Claiming ahead: messages in hand before their slot is free, and not more than that.

What is claimed by this process no other can have. So it claims what its free slots take, and
beyond that only what they will get to in a moment, by the pace they kept lately; and never more
bytes than a bound, if the next messages are as large as the last. The pace may change after the
claim: what has waited too long all the same is given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile

from tickwork.clock import monotonic
from tickwork.core.model import Message

CLAIM_MAX = 1_000
PREFETCH_MAX = 2_500
PREFETCH_SECONDS = 0.1
PREFETCH_BYTES_MAX = 16 * 1024 * 1024
THROUGHPUT_SECONDS = 0.1
FIRST_THROUGHPUT_SECONDS = 0.01
"""Over so long the pace is measured; the first one sooner, so that a backlog is not begun with one
message at a time."""

WAIT_SECONDS_MAX = 2.0
"""So long something may wait for a slot that is not free."""


class Prefetch:
    """The messages in hand that wait for a slot, and how many more may be claimed."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = self._bytes_each = 0
        self._since: deque[float] = deque()
        self._throughput = 0.0
        self._ended = 0
        self._measured_at = now()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, messages: Sequence[Message]) -> None:
        """Takes what was claimed."""
        self._put(messages, [self._now()] * len(messages))
        if messages:
            self._bytes_each = sum(len(each.body) for each in messages) // len(messages)

    def take_one(self) -> list[Message]:
        """The next one."""
        message = self._waiting.popleft()
        self._since.popleft()
        self._waiting_bytes -= len(message.body)
        return [message]

    def take(self, count: int) -> list[Message]:
        """The next ones: so many, or all there are."""
        messages = list(islice(self._waiting, count))
        for message in messages:
            self._waiting.popleft()
            self._since.popleft()
            self._waiting_bytes -= len(message.body)
        return messages

    def oldest_wait_seconds(self) -> float:
        """How long the first one has been waiting."""
        return self._now() - self._since[0] if self._since else 0.0

    def peek(self) -> list[Message]:
        """All that wait."""
        return list(self._waiting)

    def take_all(self) -> list[Message]:
        """All of them, for somebody else."""
        given = list(self._waiting)
        self._waiting.clear()
        self._since.clear()
        self._waiting_bytes = 0
        return given

    def take_overdue(self, free: int) -> list[Message]:
        """What has waited too long, but for those that so many free places are for; no longer in
        hand."""
        too_long = self._now() - WAIT_SECONDS_MAX
        if len(self._since) <= free or self._since[0] > too_long:
            return []
        late = sum(1 for _ in takewhile(lambda since: since <= too_long, self._since))
        since = [*self._since]
        waiting = self.take_all()
        self._put(waiting[:free], since[:free])
        self._put(waiting[max(late, free) :], since[max(late, free) :])
        return waiting[free:late]

    def _put(self, messages: Sequence[Message], since: Iterable[float]) -> None:
        self._waiting.extend(messages)
        self._since.extend(since)
        self._waiting_bytes += sum(len(each.body) for each in messages)

    def count_finished(self, messages: int) -> None:
        """Keeps the pace. What was given back does not belong to it: nothing was done there."""
        self._ended += messages
        self._measure()

    def _measure(self) -> None:
        now = self._now()
        passed = now - self._measured_at
        if passed >= (THROUGHPUT_SECONDS if self._throughput else FIRST_THROUGHPUT_SECONDS):
            self._throughput = self._ended / passed
            self._ended, self._measured_at = 0, now

    def claim_limit(self, free: int, coming: int = 0) -> int:
        """How many to claim now, if so many would find a free place in a slot, and so many more
        are coming."""
        if self._waiting_bytes >= PREFETCH_BYTES_MAX:
            return 0
        self._measure()  # Also when nothing ends: then there is no pace.
        ahead = min(int(self._throughput * PREFETCH_SECONDS), PREFETCH_MAX)
        in_hand = len(self._waiting) + coming
        # Rather many at once than one as soon as another is done.
        is_enough = in_hand > free + ahead // 2
        if is_enough:
            return 0
        bytes_free = PREFETCH_BYTES_MAX - self._waiting_bytes - coming * self._bytes_each
        fits = max(bytes_free // max(self._bytes_each, 1), 1)
        return min(free + ahead - in_hand, fits, CLAIM_MAX)
