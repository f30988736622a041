"""Children are real processes; points stop them exactly where the test says."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.points import reach
from tests.kit.process import ROOT, Arm, Child, ChildFailed, Children
from tests.kit.waiting import eventually

STEPS = """
import sys
from tests.kit.points import reach
for number in range(int(sys.argv[1])):
    reach("before", number=number)
    print("did", number)
    reach("after", number=number)
"""
SLEEPS = """
import signal
print("ready")
signal.pause()
"""
LEAVES_A_CHILD = """
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("left", left.pid)
"""
FAILS = """
import sys
sys.exit("no luck today")
"""
IS_KILLED_WHILE_ITS_CHILD_IS_FROZEN = """
import os, signal, sys
from pathlib import Path
from tests.kit.process import Children
child = Children(Path(sys.argv[1])).spawn(Path(sys.argv[2]))
child.stop()
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


def steps(children: Children, script: Script, *arms: Arm, count: int = 3) -> Child:
    return children.spawn(script(STEPS), str(count), arms=arms)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def test_a_script_runs_with_its_arguments_and_environment(
    children: Children, script: Script
) -> None:
    says = script("import os, sys; print(sys.argv[1], os.environ['NAME'])")
    child = children.spawn(says, "hello", env={"NAME": "world"})
    assert await child.wait() == 0
    assert child.lines() == ["hello world"]


async def test_a_module_runs(children: Children) -> None:
    child = children.spawn("tests.kit.points")
    await child.succeeded()


async def test_a_failure_shows_its_stderr(children: Children, script: Script) -> None:
    with pytest.raises(ChildFailed, match="no luck today"):
        await children.spawn(script(FAILS)).succeeded()
    with pytest.raises(ChildFailed, match=r"before a line with 'ready'(.|\n)*no luck today"):
        await children.spawn(script(FAILS)).line("ready")


async def test_a_wait_is_bounded(children: Children, script: Script) -> None:
    with pytest.raises(ChildFailed, match="without its end"):
        await children.spawn(script(SLEEPS)).wait(timeout_seconds=0.05)


async def test_kill9_leaves_no_time_to_clean_up(children: Children, script: Script) -> None:
    child = children.spawn(script(SLEEPS))
    await child.line("ready")
    child.kill9()
    assert child.returncode == -signal.SIGKILL


async def test_a_stopped_child_does_nothing_until_it_is_continued(
    children: Children, script: Script
) -> None:
    child = steps(children, script, count=10_000)
    await child.reached("before")
    child.stop()
    assert child.is_frozen
    seen = len(child.events("before"))
    assert seen < 10_000
    child.cont()
    await child.succeeded()
    assert len(child.events("before")) == 10_000


async def test_a_frozen_child_can_be_killed(children: Children, script: Script) -> None:
    child = children.spawn(script(SLEEPS))
    await child.line("ready")
    child.stop()
    child.kill9()
    assert child.returncode == -signal.SIGKILL


async def test_points_are_reported_in_order_with_their_facts(
    children: Children, script: Script
) -> None:
    child = steps(children, script)
    assert [(await child.reached("after")).facts["number"] for _ in range(3)] == [0, 1, 2]
    before, after = child.events("before")[1], child.events("after")[0]
    assert after.at_ns < before.at_ns
    with pytest.raises(ChildFailed, match="ended with 0 before point 'after'"):
        await child.reached("after")


async def test_kill_ends_a_child_exactly_at_its_point(children: Children, script: Script) -> None:
    child = steps(children, script, Arm("before", "kill", after=1))
    assert (await child.reached("before")).action is None
    killed = await child.reached("before")
    assert (killed.action, killed.facts) == ("kill", {"number": 1})
    assert child.returncode == -signal.SIGKILL
    assert child.lines() == ["did 0"]


async def test_stop_freezes_a_child_exactly_at_its_point(
    children: Children, script: Script
) -> None:
    child = steps(children, script, Arm("before", "stop", after=1))
    await child.reached("before")
    await child.reached("before")
    assert child.is_frozen
    assert child.lines() == ["did 0"]
    child.cont()
    await child.succeeded()
    assert child.lines() == ["did 0", "did 1", "did 2"]


async def test_pause_blocks_a_child_until_it_is_released(
    children: Children, script: Script
) -> None:
    child = steps(children, script, Arm("before", "pause"))
    await child.reached("before")
    assert child.lines() == []
    child.arm("after", "pause", after=1)
    child.release("before")
    await child.reached("after")
    assert (await child.reached("after")).action == "pause"
    assert child.lines() == ["did 0", "did 1"]
    child.release("after")
    await child.succeeded()


async def test_a_release_does_not_count_in_advance(children: Children, script: Script) -> None:
    child = steps(children, script, Arm("before", "pause"), Arm("after", "pause"))
    await child.reached("before")
    child.release("after")
    child.release("before")
    assert (await child.reached("after")).action == "pause"
    child.release("after")
    await child.succeeded()


async def test_processes_left_by_a_child_are_killed(tmp_path: Path, script: Script) -> None:
    with Children(tmp_path) as children:
        child = children.spawn(script(LEAVES_A_CHILD))
        await child.succeeded()
        left = int(child.lines()[0].split()[1])
        assert is_running(left)
    await eventually(lambda: not is_running(left))


async def test_a_child_dies_with_its_test_process_even_if_frozen(
    tmp_path: Path, script: Script
) -> None:
    killed = subprocess.run(  # noqa: ASYNC221  nothing else is to run meanwhile
        [sys.executable, "-c", IS_KILLED_WHILE_ITS_CHILD_IS_FROZEN, tmp_path, script(SLEEPS)],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    await eventually(lambda: not is_running(int(killed.stdout)))


def test_points_do_nothing_outside_the_kit() -> None:
    assert "TICKWORK_KIT_POINTS" not in os.environ
    reach("anything", number=1)


async def test_forked_programs_are_children_of_the_test_and_make_ids_of_their_own(
    children: Children,
) -> None:
    made = [
        children.spawn("tests.kit.print_id", str(number), env={"NAME": "Anna"})
        for number in range(3)
    ]
    for child in made:
        await child.succeeded()
    said = [child.lines()[0].split() for child in made]
    assert [words[2:] for words in said] == [[str(os.getpid()), "Anna", str(n)] for n in range(3)]
    assert len({words[0] for words in said}) == len({words[1] for words in said}) == 3
