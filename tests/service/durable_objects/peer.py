"""Runs the scenarios on Durable Objects, in the real Workers runtime.

`python -m tests.service.durable_objects.peer` writes answers.json. Miniflare starts the runtime. It
needs Node 22 or newer, which is found or installed as for the console. Its packages are installed
below `build`.
"""

import json
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
SCENARIOS, ANSWERS = FOLDER / "scenarios.json", FOLDER / "answers.json"
FILES = (".npmrc", "package.json", "package-lock.json", "run.js", "worker.js")
NODE_MIN = (22, 0)
SECONDS_MAX = 600.0


def answers_of_peer(scenarios: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the Workers runtime answers now."""
    npm, environment = runpy.run_path(str(ROOT / "console" / "build.py"))["find_npm"](NODE_MIN)
    folder = ROOT / "build" / "durable_objects"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(FOLDER / name, folder / name)

    def run(*words: str) -> str:
        return subprocess.run(
            [*npm, *words],
            cwd=folder,
            env=environment,
            timeout=SECONDS_MAX,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    (folder / SCENARIOS.name).write_text(_json(scenarios), encoding="utf-8")
    run("ci", "--loglevel=error")
    answers: dict[str, Any] = json.loads(run("run", "--silent", "answers", "--", SCENARIOS.name))
    return answers


def main() -> None:
    """Writes the answers, a scenario in each line."""
    found = answers_of_peer(json.loads(SCENARIOS.read_text(encoding="utf-8")))
    answers = [f"  {_json(name)}: {_json(value)}" for name, value in found["answers"].items()]
    head = f' "runtime": {_json(found["runtime"])},\n "answers": {{\n'
    lines = ",\n".join(answers)
    ANSWERS.write_text(f"{{\n{head}{lines}\n }}\n}}\n", encoding="utf-8")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
