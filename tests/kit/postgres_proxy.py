"""A proxy before PostgreSQL that knows which statement a request holds and which answer is whose.

Contract: faults are aimed at statements by a pattern (a regular expression over the SQL text,
ignoring case), no matter whether it came as a simple query or as a prepared statement.

- `lose_reply_to`: the server has executed and fully answered the statement (its ReadyForQuery is
  here, so that an autocommitted statement or a COMMIT is durable); the client gets none of the
  answer and a reset connection. `lose_request_to`: the same for the client, but the server never
  saw the statement. The two must be indistinguishable to what is under test.
- `delay_request_to`: the server gets the statement late. `delay_reply_to`: the client learns late.
- `statements` and `round_trips` count what passed, over all connections.

Each fault strikes `n` times and then is used up; it tells what became of the statements it struck.
Encryption is declined in the server's name: the proxy must be able to read.
"""

import asyncio
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from tests.kit import wire
from tests.kit.proxy import Filter, HangUp, TcpProxy
from tests.kit.waiting import TIMEOUT_SECONDS, delay, eventually

COMMIT = rb"(^|;)\s*COMMIT\b"
DEFAULT_PORT = 5432
STATEMENTS_MAX = 1_000_000

Effect = Literal["lose_request", "lose_reply", "delay_request", "delay_reply"]
ANSWER_EFFECTS = ("lose_reply", "delay_reply")


@dataclass(frozen=True)
class Outcome:
    """What the server answered to a statement that a fault struck."""

    statement: bytes
    tag: str | None
    """The command tag, such as "COMMIT" or "INSERT 0 1"."""
    error: str | None
    """The SQLSTATE, if it failed."""
    in_transaction: bool
    """Whether a transaction was still open afterwards: nothing is committed yet."""


@dataclass(eq=False)
class Fault:
    """A fault aimed at statements; `outcomes` has the responses it lost or delayed."""

    pattern: re.Pattern[bytes]
    effect: Effect
    left: int
    seconds: float = 0.0
    struck: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    async def strikes(self, n: int = 1, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Waits until it has struck n times."""
        what = f"{self.effect} of {self.pattern.pattern!r}"
        await eventually(lambda: self.struck >= n, timeout_seconds=timeout_seconds, what=what)


class PostgresProxy(TcpProxy):
    def __init__(self, target_url: str) -> None:
        target = urlsplit(target_url)
        super().__init__(target.hostname or "localhost", target.port or DEFAULT_PORT)
        self.statements: deque[bytes] = deque(maxlen=STATEMENTS_MAX)
        self.round_trips = 0
        self._target_url = target_url
        self._faults: list[Fault] = []

    @property
    def url(self) -> str:
        """The target's URL, through this proxy."""
        return self.url_for(self._target_url)

    def url_for(self, url: str) -> str:
        """The same for another database of the same server."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}{self.host}:{self.port}").geturl()

    def count(self, pattern: bytes) -> int:
        """Number of statements seen that match."""
        matching = re.compile(pattern, re.IGNORECASE)
        return sum(1 for statement in self.statements if matching.search(statement))

    def forget(self) -> None:
        """Resets the counters."""
        self.statements.clear()
        self.round_trips = 0

    def lose_reply_to(self, pattern: bytes, n: int = 1) -> Fault:
        return self._aim(pattern, "lose_reply", n)

    def lose_request_to(self, pattern: bytes, n: int = 1) -> Fault:
        return self._aim(pattern, "lose_request", n)

    def delay_request_to(self, pattern: bytes, seconds: float, n: int = 1) -> Fault:
        return self._aim(pattern, "delay_request", n, seconds)

    def delay_reply_to(self, pattern: bytes, seconds: float, n: int = 1) -> Fault:
        return self._aim(pattern, "delay_reply", n, seconds)

    def lose_commit_reply(self, n: int = 1) -> Fault:
        return self.lose_reply_to(COMMIT, n)

    def lose_commit_request(self, n: int = 1) -> Fault:
        return self.lose_request_to(COMMIT, n)

    def delay_commit(self, seconds: float, n: int = 1) -> Fault:
        """The server commits later by this time."""
        return self.delay_request_to(COMMIT, seconds, n)

    def strike(self, statement: bytes) -> Fault | None:
        """The fault that this statement meets, if any; it is used up by that."""
        self.statements.append(statement)
        for fault in self._faults:
            if fault.left and fault.pattern.search(statement):
                fault.left -= 1
                return fault
        return None

    def _aim(self, pattern: bytes, effect: Effect, n: int, seconds: float = 0.0) -> Fault:
        fault = Fault(re.compile(pattern, re.IGNORECASE), effect, left=n, seconds=seconds)
        self._faults.append(fault)
        return fault

    def _filter(self, to_client: asyncio.StreamWriter) -> Filter:
        return _Conversation(self, to_client)


@dataclass(eq=False)
class _Cycle:
    """Requests that the server answers together, with one ReadyForQuery at the end."""

    struck: list[tuple[bytes, Fault]] = field(default_factory=list)
    answer: list[bytes] = field(default_factory=list)
    tag: str | None = None
    error: str | None = None
    is_finished: bool = False

    @property
    def holds_answer(self) -> bool:
        aimed_at_answer = any(fault.effect in ANSWER_EFFECTS for _, fault in self.struck)
        return aimed_at_answer and not self.is_finished


class _Conversation:
    """One client and its server process. Cycles are answered in the order of their requests."""

    def __init__(self, proxy: PostgresProxy, to_client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._to_client = to_client
        self._from_client = wire.MessageReader(is_client=True)
        self._from_server = wire.MessageReader(is_client=False)
        self._prepared: dict[bytes, bytes] = {}
        self._portals: dict[bytes, bytes] = {}
        self._unanswered: deque[_Cycle] = deque()
        self._asking: _Cycle | None = None

    async def to_server(self, data: bytes) -> bytes:
        passed = []
        for message in self._from_client.feed(data):
            if message.kind == wire.STARTUP and message.startup_code != wire.PROTOCOL_3:
                if message.startup_code != wire.CANCEL_REQUEST:
                    self._to_client.write(b"N")
                    continue
            else:
                await self._request(message)
            passed.append(message.raw)
        return b"".join(passed)

    async def _request(self, message: wire.Message) -> None:
        match message.kind:
            case b"P":
                name, text = message.texts(2)
                self._prepared[name] = text
            case b"B":
                portal, name = message.texts(2)
                self._portals[portal] = self._prepared.get(name, b"")
            case b"E":
                await self._execute(self._portals.get(message.texts(1)[0], b""))
            case b"Q":
                await self._execute(message.texts(1)[0])
        if message.kind in (wire.STARTUP, b"Q", b"S", b"F"):
            self._cycle()
            self._asking = None
            self._proxy.round_trips += message.kind != wire.STARTUP

    def _cycle(self) -> _Cycle:
        if self._asking is None:
            self._asking = _Cycle()
            self._unanswered.append(self._asking)
        return self._asking

    async def _execute(self, statement: bytes) -> None:
        cycle = self._cycle()
        fault = self._proxy.strike(statement)
        if fault is None:
            return
        if fault.effect == "lose_request":
            fault.struck += 1
            raise HangUp
        cycle.struck.append((statement, fault))
        if fault.effect == "delay_request":
            fault.struck += 1
            await delay(fault.seconds)

    async def to_client(self, data: bytes) -> bytes:
        passed: list[bytes] = []
        for message in self._from_server.feed(data):
            if not self._unanswered:
                passed.append(message.raw)
                continue
            cycle = self._unanswered[0]
            cycle.answer.append(message.raw)
            await self._read_answer(message, cycle)
            if not cycle.holds_answer:
                passed += cycle.answer
                cycle.answer.clear()
        return b"".join(passed)

    async def _read_answer(self, message: wire.Message, cycle: _Cycle) -> None:
        match message.kind:
            case b"C":
                cycle.tag = message.texts(1)[0].decode()
            case b"E":
                fields = {part[:1]: part[1:] for part in message.body.split(b"\0")}
                cycle.error = fields[b"C"].decode()
            case b"Z":
                self._unanswered.popleft()
                await self._finish(cycle, in_transaction=message.body != b"I")

    async def _finish(self, cycle: _Cycle, *, in_transaction: bool) -> None:
        faults = [fault for _, fault in cycle.struck]
        for statement, fault in cycle.struck:
            fault.outcomes.append(Outcome(statement, cycle.tag, cycle.error, in_transaction))
            fault.struck += fault.effect in ANSWER_EFFECTS
        if any(fault.effect == "lose_reply" for fault in faults):
            raise HangUp
        await delay(sum(fault.seconds for fault in faults if fault.effect == "delay_reply"))
        cycle.is_finished = True
