"""The first example of the README runs as a program."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_first_example_runs_unchanged(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "shop.py").write_text(found[1], encoding="utf-8")
    output = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert sorted(re.findall(r"welcome, (\S+)@", output)) == ["a", "user0", "user1", "user2"]
    assert "completed=3" in output
