"""The settings of a queue as both stores keep them: as JSON, with the name of the app that declared
them."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tickwork.core.model import QueueSettings


class _Declared(Struct, frozen=True):
    declared_by: str | None = None


_DECODER = msgspec.json.Decoder(_Declared)


def settings_text(settings: QueueSettings, declared_by: str | None) -> str:
    """Encodes settings for storage."""
    if declared_by is None:
        return msgspec.json.encode(settings).decode()
    fields = {**msgspec.to_builtins(settings), "declared_by": declared_by}
    return msgspec.json.encode(fields).decode()


def read_declared_by(text: str) -> str | None:
    """The app that declared stored settings, if one did."""
    return _DECODER.decode(text).declared_by
