"""`python -m tests`: no test file is left out, and none runs twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import AREAS, ROOT, chosen, files_of
from tests.kit.file_queue import QUEUE_FOLDER

TEST = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number: int) -> None:
    with (Path(__file__).parents[1] / "ran").open("a") as ran:
        ran.write(f"{Path(__file__).name} {number}\\n")
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
    with pytest.raises(SystemExit, match="no such area: queues; the areas are api, app, cli, "):
        chosen("queues,cli")


def test_processes_share_the_files_and_run_each_test_once(tmp_path: Path) -> None:
    folder, queue = tmp_path / "some", tmp_path / "queue"
    folder.mkdir()
    queue.mkdir()
    names = [f"test_{number}.py" for number in range(6)]
    for name in names:
        (folder / name).write_text(TEST)
    # Neither the settings nor the fixtures of this suite.
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "-p", "tests.kit.file_queue", str(folder)]
    environ = os.environ | {QUEUE_FOLDER: str(queue)}
    processes = [
        subprocess.Popen(command, cwd=ROOT.parent, env=environ, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    output = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], output
    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(ran) == sorted(f"{name} {number}" for name in names for number in range(3))
