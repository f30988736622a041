"""The end of a batch that nobody can be told of."""

from __future__ import annotations

import logging
from uuid import UUID

_log = logging.getLogger("tickwork")


def warn_untold(batch_id: UUID, queue: str) -> None:
    """Its completion queue is gone, or was never there; the batch is completed all the same."""
    _log.warning(
        "batch %s has ended, and its completion queue %s is not there: nobody is told",
        batch_id,
        queue,
    )
