"""The worker's side of a handler process: starts it, sends requests, kills it and reaps it.

The process has its own process group. Signals of a terminal do not reach it, and whatever a handler
started there is killed with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tickwork.clock import monotonic
from tickwork.service.isolation.protocol import (
    BEGUN_LENGTH,
    HEAD,
    Load,
    Request,
    SetUp,
    decode_frame,
    encode_frame,
)
from tickwork.service.observe.log_set_up import LogSetUp

MAIN_MODULE = "tickwork.service.isolation.process_main"

CHECK_SECONDS = 1.0
"""Seconds between two checks whether it lives: its children may keep its end of the socket open."""

STOP_SECONDS = 2.0
"""Seconds it may take to exit by itself."""

REAP_SECONDS = 10.0
"""Seconds the system may take to remove a killed process."""

_POLL_SECONDS = 0.005
"""Seconds between two checks whether it has exited."""

A = TypeVar("A")


class ProcessEnded(Exception):
    """The process has exited without an answer."""


def start_process(descriptor: int) -> subprocess.Popen[bytes]:
    """Starts a process that answers requests over this socket."""
    return subprocess.Popen(  # noqa: S603 (this Python itself)
        [sys.executable, "-P", "-m", MAIN_MODULE, str(descriptor)],
        stdin=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        process_group=0,
    )


class HandlerProcess:
    """One process, which handles one message at a time."""

    def __init__(self) -> None:
        """Starts the process; `OSError` if the system allows no more."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = start_process(theirs.fileno())
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._socket = ours
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._asked = 0
        self.loaded: set[Load] = set()
        self.messages = 0
        self.idle_since: float | None = None
        self.has_begun = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it seems to be alive."""
        return not self._has_ended and not (self._streams and self._streams[0].at_eof())

    async def ask(self, request: Request, kind: type[A]) -> A:
        """Sends a request and returns the answer. `ProcessEnded` if the process exited,
        `ValueError` if the answer is invalid. `has_begun` says whether a handler had begun."""
        self._asked += 1
        self.has_begun = False
        frame = encode_frame(request, self._asked)
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(sock=self._socket)
            set_up = SetUp([*map(str, sys.path)], LogSetUp.current())
            frame = encode_frame(set_up, 0) + frame
        self._streams[1].write(frame)
        length = await self._read_header()
        if length == BEGUN_LENGTH:
            self.has_begun = True
            length = await self._read_header()
        return decode_frame(await self._read(length), kind)

    async def _read_header(self) -> int:
        length, number = HEAD.unpack(await self._read(HEAD.size))
        if number != self._asked:
            # A forked copy may write to the same socket: nothing from it can be trusted.
            raise ValueError("its process sent an answer to no request, and is not used again")
        return int(length)

    async def _read(self, count: int) -> bytes:
        assert self._streams is not None
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    return await self._streams[0].readexactly(count)
            except TimeoutError:
                if self._has_ended:
                    raise ProcessEnded from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ProcessEnded from None

    def kill(self) -> None:
        """Kills it and all processes it started. It must not have been reaped."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def reap(self, *, wait_seconds: float = STOP_SECONDS) -> int | None:
        """Lets it exit by itself for `wait_seconds`, then kills what is left. Returns its exit code
        (negative for a signal), or None if it had to be killed."""
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._socket.close()
        is_ended = await _until(lambda: self._has_ended, wait_seconds)
        self.kill()  # Before it is reaped: until then its pid cannot be reused.
        await _until(lambda: self._process.poll() is not None, REAP_SECONDS)
        return self._process.returncode if is_ended else None

    @property
    def _has_ended(self) -> bool:
        """Whether it has exited. Where the system allows, the check does not reap it."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, options) is not None
        except ChildProcessError:  # Somebody else has reaped it.
            return True


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits up to `seconds` for a condition; returns whether it holds."""
    until = monotonic() + seconds
    # No system notifies about a process that has exited without reaping it: poll.
    while not (holds := condition()) and monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)
    return holds
