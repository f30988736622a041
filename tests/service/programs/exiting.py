"""A module that ends every process that imports it, but for the one that tests it."""

from __future__ import annotations

import os
import sys
from typing import Any

if "pytest" not in sys.modules:
    os._exit(4)


def handle(_: Any) -> None:
    """Never gets there."""
