"""A module that exits every process that imports it, except the test itself."""

from __future__ import annotations

import os
import sys
from typing import Any

if "tests.conftest" not in sys.modules:
    os._exit(4)


def handle(_: Any) -> None:
    """Never gets there."""
