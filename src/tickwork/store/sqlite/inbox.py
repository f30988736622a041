"""Where pieces of work wait for the threads that carry them out."""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.store.sqlite.pieces import Piece


class Inbox:
    """Pieces in the order they came, and an end.

    Not bounded: whatever is in it has somebody who waits for it.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Piece[Any] | None] = SimpleQueue()
        self._lock, self._closed, self._pid = Lock(), False, os.getpid()

    @property
    def is_ours(self) -> bool:
        """Threads and connections do not survive a fork; whoever forked has to open anew."""
        return self._pid == os.getpid()

    def put(self, piece: Piece[Any]) -> None:
        """Accepts a piece, which from then on is carried out."""
        if not self.is_ours:
            raise StoreBroken("this store was opened before a fork: open it anew in this process")
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._waiting.put(piece)

    def close(self) -> None:
        """Accepts nothing more; the end follows what was accepted."""
        if self.is_ours:
            with self._lock:
                if not self._closed:
                    self._closed = True
                    self._waiting.put(None)

    def take(self, timeout_seconds: float | None = None) -> Piece[Any] | None:
        """The next piece, or None at the end. `Empty` if there is none in time."""
        piece = self._waiting.get(timeout=timeout_seconds)
        if piece is None:
            self._waiting.put(None)  # The end is for everybody who asks, as often as they ask.
        return piece

    def take_waiting(self) -> Piece[Any] | None:
        """The next piece if there is one now."""
        try:
            return self.take(0)
        except Empty:
            return None
