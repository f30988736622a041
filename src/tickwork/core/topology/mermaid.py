"""Draws a topology as a Mermaid flowchart: producers, queues, consumers, subscriptions.

```
  ([producer]) ──▶ [(queue)] ──a type──▶ [consumer]
                   [(queue)] ──push──▶ [/endpoint/]
  [consumer] ──calls──▶ [[service]]
  {{content.*}} ─events─▶ [(queue)] ┄dead letters┄▶ [(queue)]
```

Contract: every node has one id and is defined before its edges. Names never act as syntax: each
character that could be syntax is written as its character code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tickwork.core.topology import Topology

_ESCAPED = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[^\w.:/@-]")
"""Characters to escape. Labels are Markdown, where stars and underscores around words are markup;
underscores inside words are not."""

_SHAPES = {
    "producer": ('(["', '"])'),
    "events": ('{{"', '"}}'),
    "queue": ('[("', '")]'),
    "consumer": ('["', '"]'),
    "service": ('[["', '"]]'),
    "endpoint": ('[/"', '"/]'),
}


class _Nodes:
    """Nodes by kind and name, in the order in which they first occur."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in _SHAPES}

    def id_of(self, kind: str, name: str) -> str:
        ids = self._names[kind]
        return ids.setdefault(name, f"{kind}{len(ids) + 1}")

    def lines(self) -> Iterator[str]:
        for kind, ids in self._names.items():
            opening, closing = _SHAPES[kind]
            for name, node in ids.items():
                yield f"    {node}{opening}{escaped(name)}{closing}"


def mermaid(topology: Topology) -> Iterator[str]:
    """The lines of the flowchart."""
    nodes = _Nodes()
    for queue in topology.queues:
        nodes.id_of("queue", queue.name)
    edges = [*_edges(topology, nodes)]
    yield "flowchart LR"
    yield from nodes.lines()
    yield from edges


def escaped(text: str) -> str:
    """A text for use between quotes; never empty, since Mermaid has no empty labels."""
    return _ESCAPED.sub(lambda found: f"#{ord(found[0])};", text) or "#160;"


def _edges(topology: Topology, nodes: _Nodes) -> Iterator[str]:
    for producer in topology.producers:
        source = nodes.id_of("producer", producer.name)
        yield f"    {source} --> {nodes.id_of('queue', producer.queue)}"
    for entry in topology.subscriptions:
        source = nodes.id_of("events", entry.types)
        label = "events of every tenant" if entry.shared else "events"
        yield f'    {source} -->|"{label}"| {nodes.id_of("queue", entry.queue)}'
    for consumer in topology.consumers:
        source = nodes.id_of("queue", consumer.queue)
        target = nodes.id_of("consumer", consumer.name or f"(of {consumer.queue})")
        label = f'|"{escaped(consumer.type)}"|' if consumer.type is not None else ""
        yield f"    {source} -->{label} {target}"
    for service in topology.services:
        target = nodes.id_of("service", service.name)
        consumers = {known.name for known in topology.consumers}
        for caller in service.callers:
            kind = "consumer" if caller in consumers else "producer"
            yield f'    {nodes.id_of(kind, caller)} -->|"calls"| {target}'
    for queue in topology.queues:
        if (push_to := queue.settings.push_to) is not None:
            source, target = nodes.id_of("queue", queue.name), nodes.id_of("endpoint", push_to)
            yield f'    {source} -->|"push"| {target}'
        dead = queue.settings.dead_letter_queue
        if dead is not None:
            source, target = nodes.id_of("queue", queue.name), nodes.id_of("queue", dead)
            yield f'    {source} -.->|"dead letters"| {target}'
