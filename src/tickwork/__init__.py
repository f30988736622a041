"""Tickwork: time and messages into work that is never lost.

The public names live here, at most a dozen. Importing the package costs next to nothing: what
is heavy is imported by the part that needs it.
"""

from tickwork.errors import FieldError, InvalidInput, TickworkError

__all__ = ["FieldError", "InvalidInput", "TickworkError", "__version__"]

__version__ = "0.1.0"
