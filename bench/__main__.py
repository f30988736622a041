"""`python -m bench [--only AREA[,AREA]] [--quick]`: runs the suite, prints a table, and writes
results.json.

Exit status: 0 when every goal was met, 1 when one was missed, 2 for an area there is not.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from bench import harness, report


def main() -> int:
    for page in sorted(Path(__file__).parent.glob("*_bench.py")):
        import_module(f"bench.{page.stem}")
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tickwork.")
    parser.add_argument("--only", metavar="AREA[,AREA]", type=_areas)
    parser.add_argument("--quick", action="store_true", help="less of everything, to try it")
    asked = parser.parse_args()
    if asked.quick:
        os.environ[harness.QUICK] = "1"

    results: list[harness.Result] = []
    try:
        results.extend(harness.run(asked.only or harness.AREAS, report=_report))
    finally:  # A benchmark that breaks does not take along what was measured before it.
        report.save(results)
        print(report.table(results))
    print(report.verdict(results))
    return 0 if all(result.ok for result in results) else 1


def _areas(text: str) -> list[str]:
    areas = text.split(",")
    unknown = [area for area in areas if area not in harness.AREAS]
    if unknown:
        known = ", ".join(sorted(harness.AREAS))
        raise argparse.ArgumentTypeError(f"there is no area {', '.join(unknown)}; use {known}")
    return areas


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
