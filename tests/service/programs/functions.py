"""An app whose functions report their runs: two of its own, and one that other apps have too."""

import sys
from typing import Any

from tickwork.app.firing import Firing
from tickwork.clock import now
from tickwork.facade.app import Tickwork

APP = sys.argv[2]
app = Tickwork(sys.argv[1], name=APP, min_interval_seconds=1)


def report(name: str, firing: Firing[Any]) -> None:
    late_seconds = (now() - firing.slot).total_seconds()
    sys.stdout.write(f"{APP} {name} {firing.slot.timestamp():.0f} {late_seconds:.3f}\n")
    sys.stdout.flush()


@app.schedule(interval_seconds=1)
async def tick(firing: Firing[Any]) -> None:
    report("tick", firing)


@app.schedule(interval_seconds=1, name=f"only_{APP}")
async def only(firing: Firing[Any]) -> None:
    report(f"only_{APP}", firing)


if __name__ == "__main__":
    app.run()
