"""Operations over HTTP: `client.operations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwork.client.call import Call, M, Noun, Pages, Repeat, answer, at, given, listed, verb
from tickwork.core.answers.ids import GivenId
from tickwork.core.answers.operation import OperationView
from tickwork.core.operation import CANARY_TIMEOUT_SECONDS

_OPERATION = answer(OperationView)


class Operations(Noun[M]):
    """Work on many things, which nodes carry on in batches: start, look, stop."""

    @verb
    def start(
        self,
        kind: str,
        selection: Mapping[str, Any],
        *,
        canary: int = 0,
        canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
        rate_per_second: float | None = None,
    ) -> Call[OperationView]:
        """Starts work on everything that the selection matches now, and returns at once. Nodes
        carry it on, also if the caller goes away; what comes later is left alone.

        With `canary` that many go first, and the rest only if all of them succeed within
        `canary_timeout_seconds`. With `rate_per_second` that many are done in a second.
        """
        body = {
            "kind": kind,
            "selection": selection,
            "canary": canary,
            "canary_timeout_seconds": canary_timeout_seconds,
            **given(rate_per_second=rate_per_second),
        }
        path = at("v1", "operations")
        return Call("POST", path, _OPERATION, body=body, repeat=Repeat.KEYED)

    @listed
    def list(self, *, open_only: bool = False, limit: int | None = None) -> Pages[OperationView]:
        """Operations, newest first; with `open_only` those that are not finished."""
        return Pages(
            at("v1", "operations"), OperationView, limit, given(open_only=open_only or None)
        )

    @verb
    def get(self, operation_id: GivenId) -> Call[OperationView]:
        """One operation: how far it is and what became of it. Raises `NotFound`."""
        return Call("GET", at("v1", "operations", operation_id), _OPERATION)

    @verb
    def stop(self, operation_id: GivenId) -> Call[OperationView]:
        """Stops an operation: nothing more is done. Raises `Conflict` if it is finished."""
        return Call("POST", at("v1", "operations", operation_id, "stop"), _OPERATION)
