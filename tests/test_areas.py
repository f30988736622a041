"""`python -m tests`: no test file is left out, and none runs twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import AREAS, NO_TESTS, ROOT, chosen, files_of
from tests.kit.file_queue import PROCESS_NUMBER, QUEUE_FOLDER, SPARE

TEST = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number: int) -> None:
    with open(os.environ["RAN"], "a") as ran:
        ran.write(f"{Path(__file__).name} {number}\\n")
"""

FIXTURE = """
import pytest

@pytest.fixture
def {name}() -> int:
    return 1
"""


def test_every_file_is_in_an_area() -> None:
    known = set[Path]().union(*map(files_of, AREAS.values()))
    assert known == {*ROOT.rglob("test_*.py")}


def test_every_area_has_files_that_exist() -> None:
    for area in AREAS.values():
        files = files_of(area)
        assert files
        assert all(file.is_file() for file in files)


def test_areas_may_be_joined() -> None:
    both = {*chosen("cli, docs")}
    assert both == {*chosen("cli"), *chosen("docs")}


def test_an_unknown_area_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        SystemExit, match="no such area: queues; the areas are api, app, attacks, cli, "
    ):
        chosen("queues,cli")


def test_processes_share_the_files_and_run_each_test_once(tmp_path: Path) -> None:
    names = [f"test_{number}.py" for number in range(6)]
    statuses = run(tmp_path, dict.fromkeys(names, TEST), "0", "1")
    assert 0 in statuses
    assert {*statuses} <= {0, NO_TESTS}  # One may have been quick enough to take all.
    assert sorted(ran(tmp_path)) == sorted(f"{name} {n}" for name in names for n in range(3))


def test_the_spare_process_takes_only_tests_that_do_not_depend_on_time(tmp_path: Path) -> None:
    waits = f"# It waits, by asyncio.timeout.\n{TEST}"
    files = {"when/test_a.py": TEST, "faults/test_b.py": TEST, "api/test_c.py": TEST}
    assert run(tmp_path, files | {"api/test_d.py": waits}, SPARE) == [0]
    assert ran(tmp_path) == [f"test_{name}.py {n}" for name in "ca" for n in range(3)]
    assert run(tmp_path, {}, SPARE) == [NO_TESTS]
    assert run(tmp_path, {}, "0") == [0]
    assert ran(tmp_path)[6:] == [f"test_{name}.py {n}" for name in "bd" for n in range(3)]


@pytest.mark.parametrize(
    "source",
    ["import nothing_of_this_name", "import warnings; warnings.warn('x')", "def test_it(): 1 / 0"],
    ids=["import error", "warning", "failure"],
)
def test_a_file_that_fails_fails_its_process(tmp_path: Path, source: str) -> None:
    assert run(tmp_path, {"test_a.py": source, "test_b.py": TEST}, "0") == [1]
    assert ran(tmp_path) == [f"test_b.py {n}" for n in range(3)]


def test_no_garbage_is_collected_while_a_file_is_imported(tmp_path: Path) -> None:
    source = "import gc\n\nIS_ON = gc.isenabled()\n\n\n"
    source += "def test_it(): assert gc.isenabled() and not IS_ON"
    assert run(tmp_path, {"test_a.py": source}, "0") == [0]


def test_a_file_may_be_named_whose_tests_all_have_a_mark(tmp_path: Path) -> None:
    marked = 'import pytest\n\npytestmark = pytest.mark.one_store("sqlite")\n'
    store = '@pytest.mark.parametrize("home", ["sqlite"])\ndef test_it(home: str) -> None: ...\n'
    (tmp_path / "test_a.py").write_text(marked + store)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-p", "tests.kit.file_queue", "-p", "tests.kit.soak", str(tmp_path / "test_a.py")]
    command += ["--rootdir", str(tmp_path), "-o", "markers=one_store"]
    (tmp_path / "queue").mkdir()
    own = {QUEUE_FOLDER: str(tmp_path / "queue"), PROCESS_NUMBER: "0"}
    own |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        command, cwd=ROOT.parent, env=os.environ | own, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, "1 passed" in ended.stdout) == (0, True), ended.stdout


def test_fixtures_of_every_folder_are_found(tmp_path: Path) -> None:
    files = {
        "conftest.py": FIXTURE.format(name="outer"),
        "when/conftest.py": FIXTURE.format(name="inner"),
        "when/test_a.py": "def test_it(outer: int, inner: int) -> None: assert outer == inner",
    }
    assert run(tmp_path, files, "0") == [0]


def run(folder: Path, files: dict[str, str], *processes: str) -> list[int]:
    """Runs these processes at once on the files that were written so far, and returns how they
    ended."""
    tests, queue = folder / "tests", folder / "queue"
    queue.mkdir(exist_ok=True)
    for name, source in files.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text(source)
    # Neither the settings nor the fixtures of this suite, nor the plugins of the environment.
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-p", "tests.kit.file_queue", str(tests)]
    environ = os.environ | {QUEUE_FOLDER: str(queue), "RAN": str(folder / "ran")}
    environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    started = [
        subprocess.Popen(
            command,
            cwd=ROOT.parent,
            env=environ | {PROCESS_NUMBER: process},
            stdout=subprocess.DEVNULL,
        )
        for process in processes
    ]
    return [process.wait(timeout=60) for process in started]


def ran(folder: Path) -> list[str]:
    """The tests that ran so far."""
    return (folder / "ran").read_text().splitlines()
