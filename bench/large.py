"""`python -m bench.large`: ten million schedules, made and fired among; it takes long.

Rows as in `scheduler_bench`, on PostgreSQL and SQLite, for ten times as many. Needs some 20 GB of
disk where temporary files are.
"""

from __future__ import annotations

import sys

from bench import report
from bench.harness import Result
from bench.scheduler_bench import postgres_of, sqlite_of

SCHEDULES = 10_000_000


def main() -> int:
    """Exit status: 0 when every goal was met, 1 when one was missed."""
    results: list[Result] = []
    try:
        for measure in (postgres_of, sqlite_of):
            for result in measure(SCHEDULES):
                print(f"{result.name}: {result.value:.4g} {result.unit}", file=sys.stderr)
                results.append(result)
    finally:
        print(report.table(results))
    print(report.verdict(results))
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
