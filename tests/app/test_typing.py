"""`Queue[T]` and `Message[T]` mean to a type checker what they mean to us."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TYPED = Path(__file__).with_name("typed.py")


def test_a_type_checker_knows_what_queues_and_messages_carry() -> None:
    # With the settings, and what was found out before, of the whole tree: seconds, not minutes.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(TYPED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.stdout, checked.returncode) == ("", 0)
