"""A worker logs one line per finished message, with its level and fields."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.core.messages import claimed_message
from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tickwork import clock
from tickwork.app.message import Message, Permanent, Snooze
from tickwork.core.model import SYSTEM, Ending, Fate, Reaped, SettleResult, StoredQueue
from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.service.observe import ClockOffset, Observer, Observers, message_log
from tickwork.service.observe.log_events import EventLog, LogEvent, format_value
from tickwork.service.observe.message_log import MessageLog
from tickwork.service.observe.repeats import REPEAT_SECONDS, RepeatedLines
from tickwork.service.observe.schedule_log import ScheduleLog
from tickwork.service.worker.settle import FinishedMessage

QUEUE = StoredQueue(id=UUID(int=2), tenant="default", name="work")
LATE_SECONDS = 90.0


class Kept(logging.Handler):
    """The lines, as a formatter gets them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def told(self) -> list[tuple[str, str]]:
        """Level and outcome of each message's end."""
        return [
            (record.levelname, record.msg.fields["outcome"])
            for record in self.records
            if isinstance(record.msg, LogEvent) and "outcome" in record.msg.fields
        ]

    def fields(self, outcome: str) -> dict[str, Any]:
        """Those of the first line with this outcome."""
        found = [record.msg.fields for record in self.records if isinstance(record.msg, LogEvent)]
        return dict(next(fields for fields in found if fields.get("outcome") == outcome))


@pytest.fixture
def kept() -> Iterator[Kept]:
    """All that is logged, at every level."""
    log, handler = logging.getLogger("tickwork"), Kept()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


async def handle(message: Message[Any]) -> None:
    match message.body:
        case "retry" if message.attempts == 1:
            raise ValueError("no luck")
        case "snooze" if message._stored.claim == 1:
            raise Snooze(0.01)
        case "dead":
            raise Permanent("never")


async def test_every_end_has_a_line_of_its_level(tmp_path: Path, kept: Kept) -> None:
    work = Workplace(tmp_path, max_retries=3, backoff={"kind": "fixed", "seconds": 0})
    work.handle(handle)
    for body in ("well", "retry", "snooze", "dead"):
        await work.app.queue("work").send(body, type=f"a.{body}", source="test")
    async with work.app.running():
        await eventually(lambda: len(kept.told()) == 6, timeout_seconds=LATE_SECONDS)
    assert sorted(kept.told()) == [
        ("DEBUG", "succeeded"),
        ("DEBUG", "succeeded"),
        ("DEBUG", "succeeded"),
        ("ERROR", "dead"),
        ("INFO", "released"),
        ("WARNING", "retried"),
    ]


async def test_a_line_says_which_message_and_what_comes_next(tmp_path: Path, kept: Kept) -> None:
    work = Workplace(tmp_path, max_retries=3, backoff={"kind": "fixed", "seconds": 7})
    work.handle(handle)
    options: dict[str, Any] = {
        "type": "a.b",
        "source": "till",
        "event_id": "e1",
        "correlation_id": "c1",
    }
    message_id = await work.app.queue("work").send("retry", **options)
    async with work.app.running():
        await eventually(kept.told, timeout_seconds=LATE_SECONDS)
    fields = kept.fields("retried")
    took, delay, trace = fields.pop("took"), fields.pop("delay"), fields.pop("exception")
    sent_at = datetime.fromisoformat(fields.pop("sent_at"))
    assert 0 <= (clock.now() - sent_at).total_seconds() < 600, "when it was enqueued"
    assert 7 <= fields.pop("retry_in") < 14  # The backoff, with its spread.
    assert fields == {
        "outcome": "retried",
        "queue": "work",
        "message_id": message_id,
        "event_id": "e1",
        "correlation_id": "c1",
        "tenant": "default",
        "type": "a.b",
        "source": "till",
        "attempt": 1,
        "will_retry": True,
        "error": "ValueError: no luck",
    }
    assert 0 <= took < LATE_SECONDS
    assert 0 <= delay < LATE_SECONDS
    assert "in handle" in trace


async def test_a_line_tells_what_happened_in_a_group_of_tasks(tmp_path: Path, kept: Kept) -> None:
    work = Workplace(tmp_path)

    async def fail(body: str) -> None:
        raise KeyError(body) if body == "x" else ConnectionError(f"{body}\nsee https://example.org")

    async def share_out(message: Message[Any]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(message.body))

    work.handle(share_out, max_concurrency=1)
    await work.send("x", "the bank is shut", "x")
    async with work.app.running():
        await work.until_dead(3)
        await eventually(lambda: len(kept.told()) == 3, timeout_seconds=LATE_SECONDS)
    group = "ExceptionGroup: unhandled errors in a TaskGroup"
    told = [record.msg for record in kept.records if record.levelname == "ERROR"]
    assert sorted(event.fields["error"] for event in told if isinstance(event, LogEvent)) == [
        f"ConnectionError: the bank is shut (1 of 1 in {group})",
        f"KeyError: 'x' (1 of 1 in {group})",
        f"KeyError: 'x' (1 of 1 in {group})",
    ]
    dead = await work.dead()
    assert all((letter.error or "").startswith("  + Exception Group Traceback") for letter in dead)
    assert {letter.fingerprint for letter in dead} == {
        f"ConnectionError: the bank is shut (<n> of <n> in {group})",
        f"KeyError: <text> (<n> of <n> in {group})",
    }


async def test_what_came_too_late_is_a_warning_and_a_double_is_told(
    tmp_path: Path, kept: Kept
) -> None:
    work, both = Workplace(tmp_path), asyncio.Barrier(2)

    async def robbed(message: Message[Any]) -> None:
        if message.body == "twice":
            await both.wait()
        else:
            store = await work.app._engine.open()
            assert message._stored.holder is not None
            await store.nodes.leave(SYSTEM, message._stored.holder)

    work.handle(robbed, max_concurrency=2)
    for _ in range(2):
        await work.app.queue("work").send("twice", event_id="once")
    async with work.app.running():
        await eventually(lambda: len(kept.told()) == 2, timeout_seconds=LATE_SECONDS)
        await work.send("late")
        await eventually(
            lambda: ("WARNING", "refused") in kept.told(), timeout_seconds=LATE_SECONDS
        )
    assert sorted(kept.told()[:2]) == [("DEBUG", "succeeded"), ("INFO", "duplicate")]
    assert kept.fields("refused")["will_retry"] is False


def end(number: int, fate: Fate = Fate.ACK) -> FinishedMessage:
    message = claimed_message(id=UUID(int=number))
    return FinishedMessage(
        message, Ending(claim=message.current_claim, fate=fate), None, 0.0, 0.001
    )


def test_of_many_successes_some_are_told_and_the_rest_is_counted(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(message_log, "monotonic", lambda: now[0])
    log = MessageLog(ClockOffset(), RepeatedLines(), successes_per_second=3)
    log.messages_settled(QUEUE, [end(number) for number in range(1, 11)], SettleResult())
    assert len(kept.told()) == 3
    log.messages_settled(
        StoredQueue(id=UUID(int=3), tenant="t", name="other"), [end(11)], SettleResult()
    )
    assert len(kept.told()) == 4
    now[0] += 1.0
    log.messages_settled(QUEUE, [end(12)], SettleResult())
    assert len(kept.told()) == 5
    assert kept.records[-1].msg.fields["left_out"] == 7  # type: ignore[union-attr]
    log.messages_settled(QUEUE, [end(13, Fate.DEAD)] * 10, SettleResult())
    assert kept.told().count(("ERROR", "dead")) == 10


def test_without_debug_a_success_says_nothing(kept: Kept) -> None:
    logging.getLogger("tickwork").setLevel(logging.INFO)
    log = MessageLog(ClockOffset(), RepeatedLines())
    log.messages_settled(QUEUE, [end(1), end(2, Fate.RETRY)], SettleResult())
    assert kept.told() == [("WARNING", "retried")]


@pytest.fixture
def now() -> list[float]:
    """The monotonic time of the log; tests add seconds to it."""
    return [100.0]


@pytest.fixture
def log(now: list[float]) -> Observer:
    """The logs of a process, which share what repeats."""
    repeats = RepeatedLines(lambda: now[0])
    return Observers(MessageLog(ClockOffset(), repeats), EventLog(repeats), ScheduleLog(repeats))


def lines(kept: Kept) -> list[tuple[str, Any]]:
    """The name and the count of each line, and forgets them."""
    found = [record.msg for record in kept.records if isinstance(record.msg, LogEvent)]
    kept.records.clear()
    return [(line.event, line.fields.get("count")) for line in found]


def test_errors_of_one_cause_are_one_line_per_minute_with_a_count(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for _ in range(5):
        log.error_occurred("claim", OSError("full"))
    log.error_occurred("settle", OSError("full"))
    assert lines(kept) == [("error, retrying", None)] * 2
    now[0] += REPEAT_SECONDS
    log.error_occurred("claim", OSError("full"))
    assert lines(kept) == [("error, retrying", 4)]
    now[0] += REPEAT_SECONDS
    log.claims_reaped(Reaped())
    assert lines(kept) == [("error, retrying", 1)]
    now[0] += REPEAT_SECONDS
    log.claims_reaped(Reaped())
    log.error_occurred("claim", OSError("full"))
    assert lines(kept) == [("error, retrying", None)], "after a quiet minute it is news again"


def test_a_database_that_is_away_is_one_cause_whoever_notices_it(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for activity in ("claim", "settle", "scheduler", "claim"):
        log.error_occurred(activity, StoreUnavailable("refused"))
    (first,) = kept.records
    assert first.msg.event == "database unavailable, retrying"  # type: ignore[union-attr]
    now[0] += REPEAT_SECONDS - 1
    log.error_occurred("settle", StoreUnavailable("refused"))
    now[0] += 1
    log.claims_reaped(Reaped())
    told = kept.records[-1].msg
    assert isinstance(told, LogEvent)
    assert told.event == "database still unavailable, retrying"
    assert (told.fields["count"], told.fields["error"]) == (4, "refused")
    assert told.fields["what"] == ["claim", "scheduler", "settle"]
    assert told.fields["since"].endswith("Z")
    log.error_occurred("claim", StoreUnavailable("refused"))
    now[0] += REPEAT_SECONDS
    log.claims_reaped(Reaped())
    assert kept.records[-1].msg.event == "database available again"  # type: ignore[union-attr]


def test_a_broken_database_is_one_cause_whoever_notices_it(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for activity in ("claim", "settle", "scheduler", "claim"):
        log.error_occurred(activity, StoreBroken("the file is gone"))
    assert lines(kept) == [("error, retrying", None)]
    log.error_occurred("claim", StoreBroken("the disk is full"))
    assert lines(kept) == [("error, retrying", None)]
    now[0] += REPEAT_SECONDS
    log.claims_reaped(Reaped())
    assert lines(kept) == [("error, retrying", 3)]


def test_refused_messages_are_counted_per_queue(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for number in range(1, 31):
        late = end(number)
        log.messages_settled(QUEUE, [late], SettleResult(refused=(late.ending.claim,)))
    assert kept.told() == [("WARNING", "refused")]
    kept.records.clear()
    now[0] += REPEAT_SECONDS
    log.claims_reaped(Reaped())
    text = "messages refused, other workers had their claims and will run them"
    assert lines(kept) == [(text, 29)]


def test_stalls_and_late_planning_are_one_line_per_minute(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for second in range(60):
        log.shard_stalled(second, 31.0 + second)
        log.planning_lag(4.0 + second, 0.0, 0.35)
        now[0] += 1
    log.claims_reaped(Reaped())
    stalled = "shard.stalled: slots are overdue and no leader plans them"
    late = "slots are planned late, statements on the database are slow"
    assert lines(kept) == [(stalled, None), (late, None), (stalled, 59)]
    now[0] += 1
    log.claims_reaped(Reaped())
    assert lines(kept) == [(late, 58)]


def test_a_heartbeat_that_flaps_is_one_line_per_minute(
    kept: Kept, now: list[float], log: Observer
) -> None:
    for _ in range(10):
        log.renewal_failed("away", 9.0)
        log.renewal_recovered(0.5)
        now[0] += 5
    failed = "heartbeat failed, retrying until the lease expires"
    assert lines(kept) == [(failed, None), ("heartbeat succeeded again", None)]
    log.renewal_failing("away", 4.9)
    assert [record.levelname for record in kept.records] == ["ERROR"]
    (event, _) = lines(kept)[0]
    assert event.startswith("node.renewal_failing")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (0.25, "0.25"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a\nERROR forged", r'"a\nERROR forged"'),
        ("a=b", '"a=b"'),
        ('say "so"', r'"say \"so\""'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("naïve", "naïve"),
    ],
)
def test_what_came_from_outside_stays_within_its_field(value: object, text: str) -> None:
    assert format_value(value) == text
    assert str(LogEvent("happened", what=value, missing=None)) == f"happened what={text}"


def test_a_traceback_follows_its_line() -> None:
    line = LogEvent("failed", error="ValueError", exception="Traceback …\nValueError")
    assert str(line) == "failed error=ValueError\nTraceback …\nValueError"
