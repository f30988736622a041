"""An app that prints the tuning of its process and stops."""

from __future__ import annotations

import gc
import os
import signal
import sys

from tickwork.facade.app import Tickwork


def tell() -> None:
    """One line, and the end."""
    sys.stdout.write(f"settings {sys.getswitchinterval():g} {gc.get_threshold()[0]}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.setswitchinterval(float(sys.argv[2]))
        gc.set_threshold(int(sys.argv[3]))
    app = Tickwork(sys.argv[1])
    app.run(on_started=tell)
