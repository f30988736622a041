"""What a parent and its child write to each other: a value of JSON on each line."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from tickwork.core.merged_metrics import MetricFamily


class ChildSetUp(Struct, frozen=True, kw_only=True, tag=True):
    """Parent: the app to run, with the flags of the command line. `listeners` are descriptors of
    listening sockets by role. `is_first`: it is the one that greets the terminal."""

    number: int
    target: str
    flags: dict[str, Any]
    is_debugged: bool
    arguments: list[str]
    listeners: dict[str, int]
    is_first: bool


class DrainOrder(Struct, frozen=True, tag=True):
    """Parent: finish the running handlers and exit."""


class HurryOrder(Struct, frozen=True, tag=True):
    """Parent: cancel the running handlers and exit."""


class MetricsOrder(Struct, frozen=True, tag=True):
    """Parent: write your metrics."""


class MergedMetrics(Struct, frozen=True, tag=True):
    """Parent: the metrics of all processes, as this child has asked for."""

    families: tuple[MetricFamily, ...]


class Ready(Struct, frozen=True, tag=True):
    """Child: it handles messages. `is_alone`: its database is for one process."""

    is_alone: bool


class ChildMetrics(Struct, frozen=True, tag=True):
    """Child: its metrics, as ordered, or the last ones."""

    families: tuple[MetricFamily, ...]


class MergedMetricsRequest(Struct, frozen=True, tag=True):
    """Child: write the metrics of all processes."""


FromParent: TypeAlias = ChildSetUp | DrainOrder | HurryOrder | MetricsOrder | MergedMetrics
FromChild: TypeAlias = Ready | ChildMetrics | MergedMetricsRequest

_encoder = msgspec.json.Encoder()
_from_parent: msgspec.json.Decoder[FromParent] = msgspec.json.Decoder(FromParent)
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)


def encode(message: FromParent | FromChild) -> bytes:
    """A message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_from_parent(line: bytes) -> FromParent:
    """Raises `msgspec.MsgspecError` if it is no message."""
    return _from_parent.decode(line)


def decode_from_child(line: bytes) -> FromChild:
    """Raises `msgspec.MsgspecError` if it is no message."""
    return _from_child.decode(line)
