"""Remembers the claims of a harness's worker, so that a receiver can end that of its request."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from tickwork.core.delivery.request import WebhookRequest
from tickwork.core.model import (
    SYSTEM,
    Claim,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    Scope,
    Settlement,
)
from tickwork.testing import Harness


class ClaimsMade:
    """The claims that were made, by what a receiver sees of them."""

    def __init__(self, h: Harness) -> None:
        self._h, self._made = h, dict[tuple[str, str], Claim]()
        messages: Any = h.store.messages
        self._claim = messages.claim
        messages.claim = self.claim

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        claimed: tuple[Message, ...] = await self._claim(scope, request)
        for message in claimed:
            self._made[message.work_key, str(message.claim)] = message.current_claim
        return claimed

    async def end(self, request: WebhookRequest, fate: Fate) -> bool:
        """Ends the claim of a request, as if its worker had died. False if it stays: the retry of
        one channel shows the claims of its first message as well."""
        headers = request.headers
        claim = self._made.get((unquote(headers["Idempotency-Key"]), headers["Tickwork-Fence"]))
        if claim is None:
            return False
        ending = Ending(claim=claim, fate=fate, reason="worker_lost" if fate is Fate.DEAD else None)
        return not (await self._h.store.messages.settle(SYSTEM, Settlement((ending,)))).refused
