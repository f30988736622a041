"""Prefetch: messages claimed before their permit is free, and how many to claim next.

A message that this process has claimed is not available to other workers. So it claims what its
free permits can take, plus what they will need within a moment at their recent throughput; and
never more bytes than a limit, assuming the next messages are as large as the last. Throughput may
drop after the claim: a message that has waited too long is released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile

from tickwork.clock import monotonic
from tickwork.core.model import Message

CLAIM_MAX = 1_000
"""Maximum number of messages in one claim."""

PREFETCH_MAX = 2_500
"""Maximum number of messages claimed beyond the free permits."""

PREFETCH_SECONDS = 0.1
"""Seconds of throughput to claim beyond the free permits."""

PREFETCH_BYTES_MAX = 16 * 1024 * 1024
"""Maximum number of body bytes that wait for a permit."""

THROUGHPUT_SECONDS = 0.1
"""Seconds over which throughput is measured."""

FIRST_THROUGHPUT_SECONDS = 0.01
"""Seconds before the first measurement, shorter so that a backlog does not start with single
messages."""

WAIT_SECONDS_MAX = 2.0
"""Maximum number of seconds a message may wait for a permit before it is released."""


class Prefetch:
    """Claimed messages that wait for a permit, and the number of messages to claim next."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = self._bytes_each = 0
        self._since: deque[float] = deque()
        self._throughput = 0.0
        self._finished = 0
        self._measured_at = now()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, messages: Sequence[Message]) -> None:
        """Adds claimed messages."""
        self._put(messages, [self._now()] * len(messages))
        if messages:
            self._bytes_each = sum(len(message.body) for message in messages) // len(messages)

    def take_one(self) -> list[Message]:
        """Removes and returns the next message, as a list."""
        message = self._waiting.popleft()
        self._since.popleft()
        self._waiting_bytes -= len(message.body)
        return [message]

    def take(self, count: int) -> list[Message]:
        """Removes and returns up to `count` messages."""
        messages = list(islice(self._waiting, count))
        for message in messages:
            self._waiting.popleft()
            self._since.popleft()
            self._waiting_bytes -= len(message.body)
        return messages

    def oldest_wait_seconds(self) -> float:
        """Seconds the first message has been waiting."""
        return self._now() - self._since[0] if self._since else 0.0

    def peek(self) -> list[Message]:
        """All waiting messages."""
        return list(self._waiting)

    def take_all(self) -> list[Message]:
        """Removes and returns all waiting messages."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._since.clear()
        self._waiting_bytes = 0
        return waiting

    def take_overdue(self, free: int) -> list[Message]:
        """Removes and returns messages that have waited too long, except the first `free` ones,
        which get the free permits."""
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
        self._waiting_bytes += sum(len(message.body) for message in messages)

    def count_finished(self, messages: int) -> None:
        """Counts handled messages for the throughput; released messages do not count."""
        self._finished += messages
        self._measure()

    def _measure(self) -> None:
        now = self._now()
        elapsed = now - self._measured_at
        if elapsed >= (THROUGHPUT_SECONDS if self._throughput else FIRST_THROUGHPUT_SECONDS):
            self._throughput = self._finished / elapsed
            self._finished, self._measured_at = 0, now

    def claim_limit(self, free: int, pending: int = 0) -> int:
        """Number of messages to claim now, with capacity for `free` messages and `pending`
        messages in claims that are not answered yet."""
        if self._waiting_bytes >= PREFETCH_BYTES_MAX:
            return 0
        self._measure()  # Also if nothing finished: then the throughput is 0.
        ahead = min(int(self._throughput * PREFETCH_SECONDS), PREFETCH_MAX)
        claimed = len(self._waiting) + pending
        # One large claim is cheaper than a small one whenever a handler finishes.
        is_enough = claimed > free + ahead // 2
        if is_enough:
            return 0
        bytes_free = PREFETCH_BYTES_MAX - self._waiting_bytes - pending * self._bytes_each
        fits = max(bytes_free // max(self._bytes_each, 1), 1)
        return min(free + ahead - claimed, fits, CLAIM_MAX)
