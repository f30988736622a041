"""Messages of a type that nobody handles here: told once for each type."""

from __future__ import annotations

import logging

TYPES_WARNED_MAX = 1_000
"""Of so many types somebody is told."""

_log = logging.getLogger("tickwork")


class Unhandled:
    """The types of one queue that were met without a handler."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._known: set[str | None] = set()

    def warn(self, type_: str | None) -> None:
        """Tells of a type, if nobody was told of it yet."""
        if type_ in self._known or len(self._known) >= TYPES_WARNED_MAX:
            return
        self._known.add(type_)
        _log.warning(
            "queue %s: no handler here for %s; it is left to other workers for some ten "
            "minutes, and is then a dead letter. Add @app.on(%r%s) (told once for each type)",
            self._queue,
            "a message without a type" if type_ is None else f"the type {type_!r}",
            self._queue,
            "" if type_ is None else f", type={type_!r}",
        )
