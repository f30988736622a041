"""A child's side of the connection to its parent.

A thread reads it, so that an order arrives while the event loop is blocked, and while the app is
still imported: then the process ends as by SIGTERM, because nothing has begun.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from contextlib import suppress
from queue import Empty, Queue

import msgspec

from tickwork.core.merged_metrics import MetricFamily
from tickwork.service.process_lifecycle import Shutdown
from tickwork.service.processes.metrics import LastingRegistry, families_of
from tickwork.service.processes.protocol import (
    ChildMetrics,
    ChildSetUp,
    DrainOrder,
    FromChild,
    FromParent,
    HurryOrder,
    MergedMetrics,
    MergedMetricsRequest,
    MetricsOrder,
    Ready,
    decode_from_parent,
    encode,
)

ANSWER_SECONDS = 5.0
"""Seconds the parent may take to collect the metrics of all processes."""

_log = logging.getLogger("tickwork")


class ParentLink:
    """The connection of this process to its parent."""

    def __init__(self, descriptor: int) -> None:
        """Reads what to run from the parent."""
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rb")
        set_up = decode_from_parent(self._lines.readline())
        assert isinstance(set_up, ChildSetUp)
        self.set_up = set_up
        self._shutdown: Shutdown | None = None
        self.registry = LastingRegistry()
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._asking = threading.Lock()
        self._merged: Queue[MergedMetrics] = Queue()
        self._listeners: dict[str, socket.socket] = {}
        for role, number in set_up.listeners.items():
            os.set_inheritable(number, False)
            self._listeners[role] = socket.socket(fileno=number)
        threading.Thread(target=self._read, name="tickwork-parent", daemon=True).start()

    def listener(self, role: str) -> socket.socket | None:
        """A listening socket of the parent, to be closed by the caller; None without that role."""
        listener = self._listeners.get(role)
        return None if listener is None else listener.dup()

    def attach(self, shutdown: Shutdown) -> None:
        """Orders of the parent now drain, instead of ending the process."""
        with self._lock:
            self._shutdown = shutdown

    def ready(self, *, is_alone: bool) -> None:
        """Reports that this process handles messages."""
        self._send(Ready(is_alone))

    def all_metrics(self) -> tuple[MetricFamily, ...]:
        """The metrics of all processes; blocks. Those of this one if the parent does not answer."""
        with self._asking:
            while not self._merged.empty():
                self._merged.get()  # An answer that came too late.
            self._send(MergedMetricsRequest())
            try:
                return self._merged.get(timeout=ANSWER_SECONDS).families
            except Empty:
                return families_of(self.registry)

    def write_metrics(self) -> None:
        """Writes the metrics of this process to the parent, which keeps the last ones."""
        self._send(ChildMetrics(families_of(self.registry)))

    def _send(self, message: FromChild) -> None:
        with suppress(OSError), self._send_lock:  # If the parent is gone, the reader knows.
            self._socket.sendall(encode(message))

    def _read(self) -> None:
        try:
            for line in self._lines:
                self._obey(decode_from_parent(line))
        except (OSError, msgspec.MsgspecError):
            pass
        _log.error("the parent process is gone; this process drains")
        self._obey(DrainOrder())

    def _obey(self, message: FromParent) -> None:
        if isinstance(message, MetricsOrder):
            self.write_metrics()
            return
        if isinstance(message, MergedMetrics):
            self._merged.put(message)
            return
        with self._lock:
            if self._shutdown is None:
                os.kill(os.getpid(), signal.SIGTERM)
            elif isinstance(message, HurryOrder):
                self._shutdown.hurry()
            else:
                self._shutdown.drain()
