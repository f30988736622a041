"""Messages as an app sends them: bodies of the types that its queues declare."""

from __future__ import annotations

import logging
from typing import Any

from tickwork.app.declarations import Registry
from tickwork.app.handling import Handling, current_handling
from tickwork.core.message.body import GivenContentType, known_content_type
from tickwork.core.model import ContentType, NewMessage, Send
from tickwork.ops import sending

BODY_BYTES_WARNED = 10_000
"""Whoever sends more than this is told, once for each queue."""

QUEUES_WARNED_MAX = 1_000

_log = logging.getLogger("tickwork")


class RegistryComposer:
    """Makes messages for the queues of an app; `InvalidInput` for what does not fit them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._warned: set[str] = set()

    def handling(self) -> Handling | None:
        """The handler we are in, if what it sends by this app is stored with its end. Of an app on
        another database, or of another tenant, it cannot be."""
        handling = current_handling()
        theirs = None if handling is None else handling.compose
        if isinstance(theirs, RegistryComposer) and not theirs.is_at_home_with(self):
            return None
        return handling

    def is_at_home_with(self, other: RegistryComposer) -> bool:
        """Whether the messages of both can be stored together."""
        ours, theirs = self._registry, other._registry
        return ours is theirs or ours.home() == theirs.home()

    def __call__(
        self,
        queue: str,
        body: Any,
        *,
        content_type: GivenContentType = ContentType.JSON,
        **options: Any,
    ) -> Send:
        return Send(queue, self.message(queue, body, content_type, options))

    def message(
        self, queue: str, body: Any, content_type: GivenContentType, options: dict[str, Any]
    ) -> NewMessage:
        """The message of a body and options."""
        content_type = known_content_type(content_type)
        payload = self._registry.payload_sent(queue, options.get("type"))
        encoded = payload.encode(body, content_type) if payload else None
        message = sending.compose(body, content_type=content_type, encoded=encoded, **options)
        if len(message.body) > BODY_BYTES_WARNED and queue not in self._warned:
            self._warn(queue, len(message.body))
        return message

    def _warn(self, queue: str, body_bytes: int) -> None:
        if len(self._warned) < QUEUES_WARNED_MAX:
            self._warned.add(queue)
            _log.warning(
                "queue %s: a body has %d bytes; send references, not documents (told once for "
                "each queue)",
                queue,
                body_bytes,
            )
