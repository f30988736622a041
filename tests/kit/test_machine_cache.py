"""A cached directory is created once, is complete, and is created again if it is not."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit import machine_cache
from tests.kit.machine_cache import made_once

CALLERS = 8


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_cache, "shared_temp_dir", lambda: tmp_path)
    return tmp_path


def fill(directory: Path) -> None:
    (directory / "folder").mkdir()
    (directory / "folder" / "file").write_text("whole")


def test_concurrent_callers_share_one_directory() -> None:
    made: list[Path] = []

    def make(directory: Path) -> None:
        made.append(directory)
        fill(directory)

    with ThreadPoolExecutor(CALLERS) as pool:
        results = set(pool.map(lambda _: made_once("key", make), range(CALLERS)))
    assert len(made) == 1
    (result,) = results
    assert (result / "folder" / "file").read_text() == "whole"


def test_a_failed_make_leaves_nothing(place: Path) -> None:
    def fail(directory: Path) -> None:
        fill(directory)
        raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        made_once("key", fail)
    (root,) = place.iterdir()
    assert [path.name for path in root.iterdir()] == ["key.lock"]
    assert (made_once("key", fill) / "folder").is_dir()


def test_a_swept_directory_is_made_again() -> None:
    result = made_once("key", fill)
    (result / "folder" / "file").unlink()
    assert (made_once("key", fill) / "folder" / "file").read_text() == "whole"


def test_a_directory_that_others_can_write_is_refused(place: Path) -> None:
    made_once("key", fill)
    (root,) = place.iterdir()
    root.chmod(0o777)
    with pytest.raises(RuntimeError, match="only this user can write"):
        made_once("key", fill)
