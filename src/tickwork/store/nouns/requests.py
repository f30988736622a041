"""Requests with an idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from tickwork.core.model import Scope
from tickwork.core.request import (
    REQUEST_RETENTION_SECONDS,
    REQUEST_SECONDS_MAX,
    StoredRequest,
)
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.joined_writes import joined
from tickwork.store.steps import NOW, Noun, Statement, Steps, writes

_BEGIN = Statement("begin_request", seed=Kind.ID)
_GET = Statement("get_request", seed=Kind.ID)
_FINISH = Statement("finish_request")
_FORGET = Statement("forget_request")

_LIMITS = float(REQUEST_RETENTION_SECONDS), float(REQUEST_SECONDS_MAX)


class Requests(Noun):
    """Requests by their key."""

    # Not repeated: if the reply was lost, the request would look like one that is running.
    @writes(repeatable=False)
    def begin(self, scope: Scope, key: str, fingerprint: bytes, seed: UUID) -> Steps[StoredRequest]:
        named = (own_tenant(scope), key)
        own = yield from _BEGIN.fetch_value(NOW, *named, fingerprint, seed, *_LIMITS)
        if own is not None:
            return StoredRequest(own, fingerprint, is_own=True)
        row = yield from _GET.fetch_row(*named)
        if row is None:  # It failed just now and was forgotten.
            return StoredRequest(seed, fingerprint, is_own=False)
        return StoredRequest(row["seed"], row["fingerprint"], False, row["answer"])

    def joined(
        self, scope: Scope, key: str, seed: UUID, answer: Callable[[], bytes]
    ) -> AbstractAsyncContextManager[None]:
        return joined(
            self._port.inside(lambda: _finish(scope, key, seed, answer())),
            lambda: self.finish(scope, key, seed, answer()),
        )

    @writes(repeatable=True, is_single=True)
    def finish(self, scope: Scope, key: str, seed: UUID, answer: bytes) -> Steps[None]:
        yield from _finish(scope, key, seed, answer)

    @writes(repeatable=True, is_single=True)
    def forget(self, scope: Scope, key: str, seed: UUID) -> Steps[None]:
        yield from _FORGET.execute(own_tenant(scope), key, seed)


def _finish(scope: Scope, key: str, seed: UUID, answer: bytes) -> Steps[None]:
    yield from _FINISH.execute(own_tenant(scope), key, seed, answer)
