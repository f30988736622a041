"""A program of its own: runs a server so that it cannot outlive the test process.

    python -I -S guard.py PARENT_PID WORK_DIR UID GID COMMAND…

Contract: exits with the command's exit code when the command ends by itself. When the parent is
gone, however it went, or when the guard is told to end, the command is told to quit at once
(SIGQUIT, then SIGKILL) and WORK_DIR is removed. When the guard itself is killed, the kernel tells
the command to quit. The command gets a bare environment: no PG… variable of a developer leaks in.
All of it runs in a session of its own, so that Ctrl-C in a terminal reaches only the tests, which
then stop the server in order.

The parent's end is seen in two ways: its end of our stdin closes, and its pidfd becomes readable;
the second holds even if a forked child of the parent keeps the pipe open.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
QUIT_SECONDS_MAX = 10
SIGNALS_MAX = 64


def main() -> int:
    work_dir = sys.argv[2]
    parent_pid, uid, gid = (int(sys.argv[place]) for place in (1, 3, 4))
    woken = _woken_by_signals()
    watched = select.poll()
    watched.register(sys.stdin.fileno(), select.POLLIN)
    watched.register(woken, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        try:
            watched.register(os.pidfd_open(parent_pid), select.POLLIN)
        except ProcessLookupError:
            return 1
    if os.getppid() != parent_pid:
        return 1

    libc = ctypes.CDLL(None, use_errno=True)
    switch = uid != os.geteuid()
    server = subprocess.Popen(
        sys.argv[5:],
        stdin=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LC_ALL": "C"},
        user=uid if switch else None,
        group=gid if switch else None,
        extra_groups=[] if switch else None,
        # After the switch of user, which would clear it. There is one thread, so forking is safe.
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT),
    )
    while server.poll() is None:
        ready = {fd for fd, _ in watched.poll()}
        signals = os.read(woken, SIGNALS_MAX) if woken in ready else b""
        if ready - {woken} or set(signals) - {signal.SIGCHLD}:
            _quit(server)
            shutil.rmtree(work_dir, ignore_errors=True)
    code: int = server.returncode
    return abs(code)


def _woken_by_signals() -> int:
    """A file descriptor from which the numbers of received signals can be read."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return readable


def _quit(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGQUIT)
    try:
        server.wait(QUIT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
