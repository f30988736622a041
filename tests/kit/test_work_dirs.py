"""A temporary directory exists while its process lives, and not much longer."""

import os
from pathlib import Path

import pytest

from tests.kit import machine_cache, work_dirs
from tests.kit.process import Arm, Children
from tests.kit.work_dirs import WorkDir

TAKES = """
from tests.kit.points import reach
from tests.kit.work_dirs import WorkDir
taken = WorkDir.take("example")
reach("taken", path=taken.path)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "temp"
    place.mkdir()
    tmp_path.chmod(0o755)
    monkeypatch.setattr(machine_cache, "shared_temp_dir", lambda: place)
    monkeypatch.setattr(work_dirs, "shared_temp_dir", lambda: place)
    return place


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "takes.py"
    path.write_text(TAKES)
    return path


def exists(path: object) -> bool:
    return Path(str(path)).is_dir()


@pytest.mark.usefixtures("place")
def test_a_removed_directory_is_gone() -> None:
    first, second = WorkDir.take("example"), WorkDir.take("example")
    assert first.path != second.path
    first.remove()
    assert not first.path.exists()
    assert second.path.is_dir()
    second.remove()


async def test_a_directory_of_a_killed_process_is_removed_by_the_next(
    children: Children, script: Path
) -> None:
    child = children.spawn(script, arms=[Arm("taken", "pause")])
    left = (await child.reached("taken")).facts["path"]
    WorkDir.take("example").remove()
    assert exists(left), "it is still in use"
    child.kill9()
    WorkDir.take("example").remove()
    assert not exists(left)


@pytest.mark.parametrize("room", [0, 1 << 62])
def test_a_temporary_directory_is_in_memory_if_there_is_space(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(work_dirs, "MEMORY", memory)
    monkeypatch.setattr(work_dirs, "MEMORY_BYTES_MIN", room)
    quick, lasting = WorkDir.take("example", in_memory=True), WorkDir.take("example")
    assert quick.path.parent == (place if room else memory)
    assert lasting.path.parent == place
    quick.remove()
    lasting.remove()
    monkeypatch.setattr(work_dirs, "MEMORY", tmp_path / "none")
    WorkDir.take("example", in_memory=True).remove()


def test_other_directories_are_not_removed(place: Path) -> None:
    other = place / f"tickwork-example-{os.geteuid()}-other"
    other.mkdir()
    WorkDir.take("example").remove()
    assert other.is_dir()
