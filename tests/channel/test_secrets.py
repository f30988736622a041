"""Secrets at rest: readable in their own field with their own key, and nowhere else."""

import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.channel.secrets import SecretBox, key_in_file, new_key
from tickwork.errors import InvalidInput, StoreBroken

FIRST, SECOND = b64encode(b"1" * 32).decode(), b64encode(b"2" * 32).decode()
BOX = SecretBox.from_text(FIRST)
PLACE = ("default", "end_1", "secret")


@given(st.text(), st.text(), st.text(), st.text())
def test_a_secret_is_read_as_it_was_written(secret: str, tenant: str, row: str, field: str) -> None:
    stored = BOX.encrypt(secret, tenant, row, field)
    assert BOX.decrypt(stored, tenant, row, field) == secret


def test_a_stored_secret_shows_nothing_and_is_different_each_time() -> None:
    stored = {BOX.encrypt("whsec_abc", *PLACE) for _ in range(10)}
    assert len(stored) == 10
    assert not any(b"whsec" in sealed or b"abc" in sealed for sealed in stored)


@pytest.mark.parametrize(
    "place",
    [
        ("other", "end_1", "secret"),
        ("default", "end_2", "secret"),
        ("default", "end_1", "header"),
        ("defaulte", "nd_1", "secret"),
        ("default", "end_1s", "ecret"),
        ("", "defaultend_1", "secret"),
    ],
)
def test_a_secret_that_is_copied_elsewhere_is_refused(place: tuple[str, str, str]) -> None:
    stored = BOX.encrypt("abc", *PLACE)
    with pytest.raises(StoreBroken, match=f"the {place[2]} of {place[1]} was changed"):
        BOX.decrypt(stored, *place)


def test_a_secret_with_any_byte_changed_is_refused() -> None:
    stored = BOX.encrypt("abc", *PLACE)
    for at in range(len(stored)):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(StoreBroken):
            BOX.decrypt(changed, *PLACE)


def test_a_secret_that_was_cut_or_made_longer_is_refused() -> None:
    stored = BOX.encrypt("abc", *PLACE)
    for changed in [*(stored[:size] for size in range(len(stored))), stored + b"\0"]:
        with pytest.raises(StoreBroken):
            BOX.decrypt(changed, *PLACE)


def test_a_rotated_key_reads_old_secrets_and_writes_with_the_new_key() -> None:
    old = BOX.encrypt("abc", *PLACE)
    rotated = SecretBox.from_text(f"{SECOND}, {FIRST}")
    assert rotated.decrypt(old, *PLACE) == "abc"
    new = rotated.encrypt("abc", *PLACE)
    assert SecretBox.from_text(SECOND).decrypt(new, *PLACE) == "abc"
    with pytest.raises(StoreBroken, match="encrypted with another key; add that key to"):
        BOX.decrypt(new, *PLACE)


@pytest.mark.parametrize(
    "text",
    ["", ",", "abc", f"{FIRST},", f"{FIRST},x", FIRST[:-4], FIRST * 2, "é" * 44, f"{FIRST[:-1]}!"],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidInput, match="TICKWORK_SECRET_KEY: must be 32 random bytes in base64"
    ):
        SecretBox.from_text(text)


def test_new_keys_are_valid_and_never_the_same() -> None:
    keys = {new_key() for _ in range(10)}
    assert len(keys) == 10
    for key in keys:
        SecretBox.from_text(key)


def test_a_key_file_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "tickwork.key"
    key = key_in_file(path)
    SecretBox.from_text(key)
    assert path.stat().st_mode & 0o777 == 0o600
    assert key_in_file(path) == key
    assert [file.name for file in tmp_path.iterdir()] == ["tickwork.key"]


def test_a_key_file_that_is_missing_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tickwork.key"
    with pytest.raises(InvalidInput, match=r"is missing, and there is no key file tickwork\.key"):
        key_in_file(path, make_key=False)
    assert not path.exists()
    path.mkdir()
    for make_key in (True, False):
        with pytest.raises(InvalidInput, match=r"tickwork\.key cannot be read .*; run this as"):
            key_in_file(path, make_key=make_key)


def test_threads_that_need_a_key_at_once_get_one_whole_key(tmp_path: Path) -> None:
    threads = 8
    for number in range(20):
        path, barrier = tmp_path / str(number), Barrier(threads)

        def read(path: Path = path, barrier: Barrier = barrier) -> str:
            barrier.wait()
            return key_in_file(path)

        with ThreadPoolExecutor(threads) as pool:
            keys = {future.result() for future in [pool.submit(read) for _ in range(threads)]}
        assert keys == {path.read_text().strip()}
        SecretBox.from_text(keys.pop())
    assert len([*tmp_path.iterdir()]) == 20


def test_processes_that_need_a_key_at_once_get_one_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tickwork.channel.secrets import key_in_file\n"
        "print('ready', flush=True); sys.stdin.readline(); print(key_in_file(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "key")]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(3)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    keys = {process.communicate(timeout=60)[0].strip() for process in started}
    assert keys == {(tmp_path / "key").read_text().strip()}
