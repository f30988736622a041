"""A topology as a picture in Mermaid: who sends, queues, who is served.

```
  ([producer]) ──▶ [(queue)] ──a type──▶ [consumer]
  {{content.*}} ─events─▶ [(queue)] ┄dead letters┄▶ [(queue)]
```

Contract: every id is used once and stands before the lines that lead from or to it. A name is
shown and is never syntax: whatever could be syntax is spelled by its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tickwork.core.topology import Topology

_SPELLED = re.compile(r"(?<![^\W_])_|_(?![^\W_])|[^\w.:/@-]")
"""Not what is inside of words; labels are Markdown, where a star or two underscores mean more."""

_SHAPES = {
    "producer": ('(["', '"])'),
    "events": ('{{"', '"}}'),
    "queue": ('[("', '")]'),
    "consumer": ('["', '"]'),
}


class _Nodes:
    """What is drawn, by kind and name, in the order in which it was first spoken of."""

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
    """The lines of the picture, from left to right."""
    nodes = _Nodes()
    for queue in topology.queues:
        nodes.id_of("queue", queue.name)
    arrows = [*_arrows(topology, nodes)]
    yield "flowchart LR"
    yield from nodes.lines()
    yield from arrows


def escaped(text: str) -> str:
    """A text as it may stand between quotes; never empty, as there are no empty labels."""
    return _SPELLED.sub(lambda found: f"#{ord(found[0])};", text) or "#160;"


def _arrows(topology: Topology, nodes: _Nodes) -> Iterator[str]:
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
    for queue in topology.queues:
        dead = queue.settings.dead_letter_queue
        if dead is not None:
            source, target = nodes.id_of("queue", queue.name), nodes.id_of("queue", dead)
            yield f'    {source} -.->|"dead letters"| {target}'
