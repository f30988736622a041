"""The walk with curl in docs/http.md works line by line against a real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.docs.snippets import blocks
from tests.kit.api import bearer, new_key
from tests.kit.process import Children
from tickwork.settings import Settings
from tickwork.wiring import open_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http.md"
_ID = re.compile(r"(sch|msg|dead|bat|dlv|end)_[0-9a-f]{32}")


def learn(names: dict[str, str], value: object, field: str = "") -> None:
    """Remembers the ids in an answer under the names that the page uses."""
    if isinstance(value, dict):
        for name, inner in value.items():
            learn(names, inner, name)
    elif isinstance(value, list):
        for inner in value:
            learn(names, inner, field)
    elif field == "lease_id":
        names["LEASE"] = str(value)
    elif field == "id" and (found := _ID.fullmatch(str(value))):
        names[found[1].upper()] = str(value)


def fits(expected: Any, answer: Any) -> bool:
    """Whether an answer has everything that the page shows; `…` stands for any text."""
    if isinstance(expected, dict):
        return all(name in answer and fits(value, answer[name]) for name, value in expected.items())
    if isinstance(expected, list):
        return len(expected) == len(answer) and all(map(fits, expected, answer))
    if isinstance(expected, str) and "…" in expected:
        return re.fullmatch(re.escape(expected).replace("…", ".+"), str(answer)) is not None
    return bool(expected == answer)


def run(line: str, names: dict[str, str]) -> Any:
    """The answer of a command of the page."""
    command = line.replace("curl ", "curl -sS --fail-with-body --noproxy '*' ", 1)
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


async def test_every_command_of_the_walk_works(children: Children, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'walk.db'}"
    store = await open_store(Settings(database=database))
    token = await new_key(store)
    await store.close()
    server = children.spawn("tickwork", "up", "--port", "0", "--database", database)
    url = (await server.line("listens on")).split()[-1]
    (authorization,) = bearer(token).values()
    names = {"URL": url, "AUTH": f"Authorization: {authorization}"}
    commands, answer = 0, None
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.language == "json":
            assert fits(json.loads(block.text), answer), f"line {block.line}: {answer}"
            continue
        for line in block.text.splitlines():
            if line.startswith("curl "):
                answer = run(line, names)
                learn(names, answer)
                commands += 1
    assert commands > 30
    server.terminate()
    await server.succeeded()
