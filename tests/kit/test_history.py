"""A history contains every event of every writer, and survives writers that are killed."""

from pathlib import Path

import pytest

from tests.kit.history import HistoryWriter, read_history
from tests.kit.process import Children

WRITERS = 4
EVENTS = 500
WRITES = """
import sys
from pathlib import Path
from tests.kit.history import HistoryWriter
history = HistoryWriter(Path(sys.argv[1]), sys.argv[2])
for number in range(int(sys.argv[3])):
    call = history.invoke("send", number=number, body="x" * (number % 97))
    history.ok(call, message=f"{sys.argv[2]}/{number}")
history.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_an_operation_is_read_back_as_it_was_written(path: Path) -> None:
    writer = HistoryWriter(path, "worker", clock_ns=iter([10, 20, 30, 40]).__next__)
    call = writer.invoke("claim", limit=2)
    writer.ok(call, message="a", claim=1)
    writer.fail(call)
    writer.info("expire", message="a", claim=1)
    writer.close()
    events, torn = read_history(path)
    assert torn == 0
    assert [(event.at_ns, event.kind, event.op) for event in events] == [
        (10, "invoke", "claim"),
        (20, "ok", "claim"),
        (30, "fail", "claim"),
        (40, "info", "expire"),
    ]
    assert [event.call for event in events] == [None, call.sequence, call.sequence, None]
    assert (events[1].text("message"), events[1].number("claim")) == ("a", 1)
    with pytest.raises(TypeError, match=r"claim=1 is no text"):
        events[1].text("claim")


async def test_processes_share_one_file(path: Path, tmp_path: Path, children: Children) -> None:
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    running = [
        children.spawn(script, path, f"writer-{number}", str(EVENTS)) for number in range(WRITERS)
    ]
    for child in running:
        await child.succeeded()
    events, torn = read_history(path)
    assert torn == 0
    assert len(events) == 2 * WRITERS * EVENTS
    assert len({event.text("message") for event in events if event.kind == "ok"}) == (
        WRITERS * EVENTS
    )
    assert [event.at_ns for event in events] == sorted(event.at_ns for event in events)
    for child in running:
        own = [event.sequence for event in events if event.pid == child.pid]
        assert own == list(range(1, 2 * EVENTS + 1))


def test_a_torn_line_is_counted_and_spoils_no_other(path: Path) -> None:
    killed = HistoryWriter(path, "killed")
    killed.info("first")
    killed.info("second")
    killed.close()
    path.write_bytes(path.read_bytes()[:-20])
    survivor = HistoryWriter(path, "survivor")
    survivor.info("third")
    survivor.close()
    path.write_bytes(path.read_bytes() + b'\n{"at_ns": 12, "op": "t\xc3')
    events, torn = read_history(path)
    assert [event.op for event in events] == ["first", "third"]
    assert torn == 2
