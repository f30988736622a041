"""The same as `leader`, on a machine whose clocks are off.

    python -m tests.faults.programs.skewed_clock SECONDS URL PLANS NAME ORDERS

All clocks that our code reads differ by so much, and so do the times in the ids that it makes. How
long a second is for the kernel and the event loop stays as it was.
"""

import sys
from datetime import timedelta
from uuid import UUID

from uuid_utils import uuid7

from tickwork import clock

PROGRAM = "tests.faults.programs.skewed_clock"


def set_clocks(seconds: float) -> None:
    """To be called before anything is imported that keeps a clock under a name of its own."""
    now, monotonic = clock.now, clock.monotonic
    clock.now = lambda: now() + timedelta(seconds=seconds)
    clock.monotonic = lambda: monotonic() + seconds
    ours = [vars(module) for name, module in sys.modules.items() if name.startswith("tickwork.")]
    assert not [
        namespace
        for namespace in ours
        if monotonic in namespace.values() or now in namespace.values()
    ]
    from tickwork.store import ids

    def uuid7_then() -> UUID:
        return UUID(int=uuid7(nanoseconds=int(clock.now().timestamp() * 1e9)).int)

    setattr(ids, "uuid7", uuid7_then)  # noqa: B010  it is not theirs to export


if __name__ == "__main__":
    set_clocks(float(sys.argv[1]))
    from tests.faults.programs import leader

    leader.main(*sys.argv[2:])
