"""How a call is carried out: its request, repeats, and what its answer means. Knows no sockets.

| what happens | what follows |
|---|---|
| no connection, 429 | the request had no effect: send it again |
| the answer is lost, 503 | send it again if a repeat has no further effect |
| then 409 `request_running` | the first attempt still runs: ask again |
| any other answer | the result, or its error |

A request that creates something has an idempotency key, made once for all its attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import msgspec
from msgspec import UNSET

from tickwork.client.call import Call, Pause, Plan, Repeat
from tickwork.client.problem import error_of, retry_after
from tickwork.clock import monotonic
from tickwork.core.message.body import check_finite
from tickwork.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    RequestRunning,
    ServiceFailed,
    ServiceUnavailable,
    TickworkError,
)

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
"""Seconds that a request may take unless the caller says otherwise."""

RETRY_SECONDS = 30.0
"""Seconds for which a request is repeated unless the caller says otherwise."""

RUNNING_SECONDS_MAX = 75.0
"""Seconds to ask for a request whose first attempt still runs; the server gives it up after 60."""

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0

_ERRORS_FROM = 400
_NOT_FOUND = 404
_TOO_MANY = 429
_UNAVAILABLE = 503
_REPLAYED = "idempotency-replayed"


class Request(NamedTuple):
    """One attempt at a call."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    timeout_seconds: float


class Answer(NamedTuple):
    """An answer. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(NamedTuple):
    """There is no answer. `is_sent`: the server may have got the request."""

    is_sent: bool
    reason: str


Steps = Generator[Request | Pause, Answer | Lost | None, T]
"""What a transport does: sends each request, waits for each pause."""


@dataclass(frozen=True)
class Server:
    """Where the API is, and who asks."""

    url: str
    key: str | None = field(repr=False, default=None)
    tenant: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    retry_seconds: float = RETRY_SECONDS
    jitter: Callable[[], float] = lambda: uuid4().int % 1_000 / 1_000

    def steps(self, plan: Plan[T]) -> Steps[T]:
        """Everything that a plan needs done."""
        try:
            todo = plan.send(None)
            while True:
                if isinstance(todo, Pause):
                    yield todo
                    todo = plan.send(None)
                    continue
                try:
                    result = yield from self._carried_out(todo)
                except TickworkError as error:
                    todo = plan.throw(error)
                else:
                    todo = plan.send(result)
        except StopIteration as ended:
            value: T = ended.value
            return value

    def request(self, call: Call[Any]) -> Request:
        """The request of a call, without an idempotency key."""
        query = {name: _text(value) for name, value in call.query.items() if value is not None}
        headers = {"Accept": "application/json", **call.headers}
        if self.key is not None:
            headers.setdefault("Authorization", f"Bearer {self.key}")
        if self.tenant is not None:
            headers["Tickwork-Tenant"] = self.tenant
        body = b""
        if call.body is not UNSET:
            body = encoded(call.body)
            headers["Content-Type"] = "application/json"
        asked = f"?{urlencode(query)}" if query else ""
        seconds = self.timeout_seconds + call.wait_seconds
        return Request(call.method, f"{self.url}{call.path}{asked}", headers, body, seconds)

    def _carried_out(self, call: Call[T]) -> Steps[T]:
        """Sends a call, and sends it again where that is right, until there is an answer."""
        request, was_lost = self.request(call), False
        if call.repeat is Repeat.KEYED:
            request.headers.setdefault("Idempotency-Key", uuid4().hex)
        until, pause = monotonic() + self.retry_seconds, PAUSE_SECONDS_MIN
        while True:
            outcome = yield request
            if isinstance(outcome, Answer) and outcome.status < _ERRORS_FROM:
                return self._read(call, outcome)
            assert outcome is not None
            error, may_repeat, seconds = self._failure(call, outcome)
            if isinstance(outcome, Lost):
                was_lost = was_lost or outcome.is_sent
            elif was_lost and (call.method, outcome.status) == ("DELETE", _NOT_FOUND):
                return call.read(b"null")  # The attempt before has deleted it.
            elif outcome.status == _UNAVAILABLE:
                was_lost = True  # The change may be done, or still run.
            if isinstance(error, RequestRunning) and was_lost:
                until = max(until, monotonic() - self.retry_seconds + RUNNING_SECONDS_MAX)
                may_repeat = True
            seconds = max(seconds or 0.0, pause * (0.5 + self.jitter() / 2))
            if not may_repeat or monotonic() + seconds > until:
                raise error
            yield Pause(seconds)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    def _failure(
        self, call: Call[Any], outcome: Answer | Lost
    ) -> tuple[TickworkError, bool, float | None]:
        """The error of an attempt, whether to repeat it, and after how many seconds at least."""
        can_repeat = call.repeat is not Repeat.NEVER
        if isinstance(outcome, Lost):
            error = ServiceUnavailable(self.name, outcome.reason)
            return error, can_repeat or not outcome.is_sent, None
        wait = retry_after(outcome.headers)
        is_unavailable = outcome.status == _UNAVAILABLE and can_repeat
        error_ = error_of(outcome.status, outcome.body, outcome.headers, self.name)
        return error_, outcome.status == _TOO_MANY or is_unavailable, wait

    def _read(self, call: Call[T], found: Answer) -> T:
        try:
            result = call.read(found.body)
        except msgspec.MsgspecError as error:
            fault = f"the answer of {call.method} {call.path} cannot be read: {error}"
            raise ServiceFailed(self.name, found.status, fault) from None
        is_repeat = _REPLAYED in found.headers
        if call.secret is not None and is_repeat and not getattr(result, call.secret, None):
            raise Conflict(
                f"{getattr(result, 'id', 'it')} was created, but its {call.secret} was lost with "
                "the first answer; rotate it to get a new one"
            )
        return result

    @property
    def name(self) -> str:
        """The server in the text of errors: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def checked_url(url: object) -> str:
    """The URL of a server, without a slash at its end. Raises `InvalidInput`."""
    fault = "must be the address of a server, such as http://127.0.0.1:8080"
    if not isinstance(url, str):
        raise InvalidInput([FieldError("url", f"{fault}, not {url!r}")])
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # The port, or an address in brackets.
        is_valid = False
    if not is_valid:  # The URL may have a password.
        raise InvalidInput([FieldError("url", fault)])
    return url.rstrip("/")


def encoded(body: object) -> bytes:
    """A body as JSON. Raises `InvalidInput` for what JSON cannot represent."""
    try:
        sent = msgspec.json.encode(body, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput([FieldError("body", f"cannot be sent as JSON: {error}")]) from None
    check_finite(body, sent, root="", plain=_plain)
    return sent


def _plain(value: object) -> object:
    """What msgspec does not know: an id, or a Pydantic model."""
    if isinstance(value, str):
        return str(value)
    dump: Any = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is not a JSON type")
    return dump(mode="json")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
