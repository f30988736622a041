"""Messages as an app sends them: bodies of the types that its queues declare."""

from __future__ import annotations

from typing import Any

from tickwork.app.declarations import Registry
from tickwork.core.model import ContentType, NewMessage, Send
from tickwork.ops import sending


class RegistryComposer:
    """Makes messages for the queues of an app; `InvalidInput` for what does not fit them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __call__(
        self, queue: str, body: Any, *, content_type: ContentType = ContentType.JSON, **options: Any
    ) -> Send:
        return Send(queue, self.message(queue, body, content_type, options))

    def message(
        self, queue: str, body: Any, content_type: ContentType, options: dict[str, Any]
    ) -> NewMessage:
        """The message of a body and options."""
        declared = self._registry.queues.get(queue)
        encoded = declared.payload.encode(body, content_type) if declared else None
        return sending.compose(body, content_type=content_type, encoded=encoded, **options)
