"""One node as a process, which records its plans for the checkers.

    python -m examples.distributed_cron.node PLANS_FILE LEASE_SECONDS AHEAD_SECONDS

Without the record and the settable times it would be
`tickwork run examples.distributed_cron.app:app`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.distributed_cron.app import app
from tickwork.testing.recorded_cluster import run_recorded_node

DRAIN_SECONDS = 2.0


def main(plans_file: str, lease_seconds: str, ahead_seconds: str) -> None:
    """Run until stopped or killed."""
    run_recorded_node(
        app,
        Path(plans_file),
        lease_seconds=float(lease_seconds),
        ahead_seconds=float(ahead_seconds),
        drain_seconds=DRAIN_SECONDS,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
