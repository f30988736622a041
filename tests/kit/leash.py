"""A program of its own: becomes a command that dies with the test process.

    python -I -S leash.py PARENT_PID EVENTS_FD CONTROL_FD COMMAND…

Contract: the process id stays the same (this program turns into the command). When the thread that
started it ends, the kernel kills it, even if it is stopped; an event `leashed` says that this holds
from now on. It may be traced by any process of the same user, also where the kernel allows only
parents to trace. The descriptors are named to points.py together with the process id: a grandchild,
which does not inherit them, must not use them.
"""

import ctypes
import json
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def leash(parent_pid: int, events_fd: int, control_fd: int) -> None:
    """Ties this process to its parent, and says so."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit("leash: the test process has ended already")
    event: dict[str, object] = {
        "point": "leashed",
        "action": None,
        "at_ns": time.monotonic_ns(),
        "facts": {},
    }
    os.write(events_fd, json.dumps(event).encode() + b"\n")
    os.environ["TICKWORK_KIT_POINTS"] = f"{os.getpid()}:{events_fd}:{control_fd}"


if __name__ == "__main__":
    leash(*(int(argument) for argument in sys.argv[1:4]))
    os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606  the command comes from the kit
