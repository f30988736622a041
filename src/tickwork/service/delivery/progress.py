"""What is recorded about a delivery under its claim: what was sent, and the token of its callback.

Each record is fenced by the claim. When the claim is lost, another worker has the message.
"""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.delivery.callback import SECRET_BYTES, callback_headers, new_token, token_row
from tickwork.core.delivery.channels import known_results, may_have_progress, sending_rows
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.target import Envelope
from tickwork.core.model import Message, Scope
from tickwork.errors import ClaimLost
from tickwork.store.contract import Store
from tickwork.store.ids import random_bytes


class DeliveryProgress:
    """Reads and records the progress of deliveries."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def known(self, message: Message, envelope: Envelope) -> dict[str, Delivery]:
        """The results of channels that must not be sent again."""
        if not may_have_progress(message, envelope):
            return {}
        rows = await self._store.progress.get(Scope(message.tenant), message.work_key)
        return known_results(rows, envelope)

    async def begin(
        self, message: Message, envelope: Envelope, known: Mapping[str, Delivery]
    ) -> None:
        """Records the channels that are about to be sent, if they are sent at most once. Raises
        `ClaimLost` if another worker may send them."""
        if not envelope.is_at_most_once:
            return
        if rest := [name for name in envelope.channel_names if name not in known]:
            await self._must_record(message, sending_rows(rest))

    async def callback_headers(self, message: Message, public_url: str) -> dict[str, str]:
        """The headers with a new token, whose hash is recorded before it is sent: a receiver may be
        done before it has answered. Raises `ClaimLost`."""
        token = new_token(message, random_bytes(SECRET_BYTES))
        await self._must_record(message, token_row(message, token))
        return callback_headers(public_url, message, token)

    async def record(self, message: Message, rows: Mapping[str, str]) -> bool:
        """Records rows; whether the claim is still valid."""
        scope, claim = Scope(message.tenant), message.current_claim
        return await self._store.progress.record(scope, claim, message.work_key, rows)

    async def _must_record(self, message: Message, rows: Mapping[str, str]) -> None:
        if not await self.record(message, rows):
            raise ClaimLost([message.id])
