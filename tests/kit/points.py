"""Named points in a child process, at which its parent can pause, stop or kill it.

Contract: `reach("claimed", message=…)` records that the point was reached, and then does what the
parent armed there (`Child.arm`): `kill` ends the process with SIGKILL at exactly this point, `stop`
freezes all of it with SIGSTOP, `pause` blocks the calling thread, and every other that reaches a
point, until the parent releases it. It blocks on purpose, also in async code: the process is to
stand still right here. In a process that the kit did not start it does nothing.

The record goes to a file, not to a pipe: a parent that does not read cannot slow the child down.
"""

import json
import os
import select
import signal
import threading
import time
from dataclasses import dataclass

ENVIRONMENT = "TICKWORK_KIT_POINTS"
CONTROL_BYTES_MAX = 65_536


@dataclass
class _Arm:
    action: str
    passes_left: int


class _Points:
    def __init__(self, events_fd: int, control_fd: int) -> None:
        self._events_fd = events_fd
        self._control_fd = control_fd
        self._lock = threading.Lock()
        self._arms: dict[str, _Arm] = {}
        self._released: set[str] = set()
        self._pending = b""
        os.set_inheritable(events_fd, False)
        os.set_inheritable(control_fd, False)

    def reach(self, point: str, facts: dict[str, object]) -> None:
        with self._lock:
            self._take_orders(wait=False)
            action = self._due(point)
            self._record(point, action, facts)
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif action == "stop":
                # Stops all threads. Sent to the process, it would be handled by the main thread,
                # and this one would go on until that gets a core.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            elif action == "pause":
                while point not in self._released:
                    self._take_orders(wait=True)
                self._released.discard(point)

    def _due(self, point: str) -> str | None:
        arm = self._arms.get(point)
        if arm is None:
            return None
        if arm.passes_left:
            arm.passes_left -= 1
            return None
        del self._arms[point]
        self._released.discard(point)
        return arm.action

    def _record(self, point: str, action: str | None, facts: dict[str, object]) -> None:
        event = {"point": point, "action": action, "at_ns": time.monotonic_ns(), "facts": facts}
        os.write(self._events_fd, json.dumps(event, default=str).encode() + b"\n")

    def _take_orders(self, *, wait: bool) -> None:
        while select.select([self._control_fd], [], [], None if wait else 0)[0]:
            received = os.read(self._control_fd, CONTROL_BYTES_MAX)
            if not received and wait:
                os._exit(1)  # no process is left that could release us
            *lines, self._pending = (self._pending + received).split(b"\n")
            for line in lines:
                self._obey(json.loads(line))
            if not received or lines:
                return

    def _obey(self, order: dict[str, str | int]) -> None:
        point = str(order["point"])
        if order["order"] == "release":
            self._released.add(point)
        else:
            self._arms[point] = _Arm(str(order["action"]), int(order["after"]))


def _of_environment() -> _Points | None:
    pid, _, descriptors = os.environ.get(ENVIRONMENT, "").partition(":")
    if pid != str(os.getpid()):
        return None
    events_fd, _, control_fd = descriptors.partition(":")
    return _Points(int(events_fd), int(control_fd))


_points = _of_environment()


def reach(point: str, **facts: object) -> None:
    if _points is not None:
        _points.reach(point, facts)
