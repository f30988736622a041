"""Every error Tickwork raises on purpose, in one tree, each with a stable code.

```
TickworkError
└── InvalidInput     the caller's data is wrong: which field, and what to do
```

A code never changes its meaning; texts may improve. Errors that name a field carry one
`FieldError` per fault, so that a caller can mend everything at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple


class FieldError(NamedTuple):
    """One fault in one field, said so that a person knows what to do."""

    field: str
    message: str


class TickworkError(Exception):
    """The root of the tree; `code` is stable and meant for programs."""

    code: ClassVar[str] = "error"


class InvalidInput(TickworkError):
    """Bad input: nothing was stored, and every faulty field is named."""

    code = "invalid_input"

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in self.errors))
