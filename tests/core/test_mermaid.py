"""Mermaid flowcharts: every line is valid, every edge has two nodes, names are never syntax."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_topology import FIVE_SERVICES
from tickwork.core.model import QueueSettings
from tickwork.core.topology import (
    Consumer,
    Producer,
    QueueEntry,
    SubscriptionEntry,
    Topology,
    parse,
)
from tickwork.core.topology.mermaid import escaped, mermaid

LABEL = r"(?:[\w.:/@-]|#\d+;)+"
NODE = re.compile(
    r"    (?P<id>[a-z]+\d+)"
    rf'(?P<open>\(\["|\{{\{{"|\[\("|\[\["|\[")(?P<label>{LABEL})(?P<close>"\]\)|"\}}\}}|"\)\]|"\]\]|"\])'
)
ARROW = re.compile(
    r"    (?P<source>[a-z]+\d+) (?P<line>-->|-\.->)"
    r'(?:\|"(?P<label>(?:[\w.:/@ -]|#\d+;)+)"\|)? (?P<target>[a-z]+\d+)'
)
CLOSES = {'(["': '"])', '{{"': '"}}', '[("': '")]', '[["': '"]]', '["': '"]'}


class Drawn(NamedTuple):
    """The nodes of a flowchart, and its edges as (source, line, label, target)."""

    names: dict[str, str]
    arrows: list[tuple[str, str, str | None, str]]


def read(lines: list[str]) -> Drawn:
    """Parses a flowchart strictly."""
    names: dict[str, str] = {}
    arrows: list[tuple[str, str, str | None, str]] = []
    assert lines[0] == "flowchart LR"
    for line in lines[1:]:
        if node := NODE.fullmatch(line):
            assert not arrows, "what is drawn is said before the arrows"
            assert node["id"] not in names
            assert CLOSES[node["open"]] == node["close"]
            names[node["id"]] = unescaped(node["label"])
            continue
        arrow = ARROW.fullmatch(line)
        assert arrow is not None, line
        label = None if arrow["label"] is None else unescaped(arrow["label"])
        source, target = names[arrow["source"]], names[arrow["target"]]
        arrows.append((source, arrow["line"], label, target))
    return Drawn(names, arrows)


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


def test_producers_queues_consumers_and_dead_letter_queues_are_drawn() -> None:
    topology = Topology(
        queues=(
            QueueEntry(name="emails", settings=QueueSettings(dead_letter_queue="graves")),
            QueueEntry(name="graves"),
        ),
        producers=(Producer(name="shop", queue="emails"), Producer(name="shop", queue="graves")),
        consumers=(
            Consumer(queue="emails", name="mailer", type="welcome"),
            Consumer(queue="graves"),
        ),
        subscriptions=(
            SubscriptionEntry(types="user.*", queue="emails"),
            SubscriptionEntry(types="user.*", queue="graves", shared=True),
        ),
    )
    drawn = read([*mermaid(topology)])
    assert sorted(drawn.names.values()) == [
        *("(of graves)", "emails", "graves", "mailer", "shop", "user.*")
    ]
    assert drawn.arrows == [
        ("shop", "-->", None, "emails"),
        ("shop", "-->", None, "graves"),
        ("user.*", "-->", "events", "emails"),
        ("user.*", "-->", "events of every tenant", "graves"),
        ("emails", "-->", "welcome", "mailer"),
        ("graves", "-->", None, "(of graves)"),
        ("emails", "-.->", "dead letters", "graves"),
    ]


def test_every_entry_of_a_file_is_drawn() -> None:
    topology = parse(FIVE_SERVICES)
    drawn = read([*mermaid(topology)])
    dead = sum(queue.settings.dead_letter_queue is not None for queue in topology.queues)
    parts = (topology.producers, topology.consumers, topology.subscriptions)
    calls = sum(len(service.callers) for service in topology.services)
    assert len(drawn.arrows) == sum(map(len, parts)) + dead + calls
    assert ("gatherfeed", "-->", "calls", "apimom") in drawn.arrows
    assert {queue.name for queue in topology.queues} <= {*drawn.names.values()}


def test_a_dead_letter_queue_without_a_consumer_is_drawn() -> None:
    settings = QueueSettings(dead_letter_queue="elsewhere")
    drawn = read([*mermaid(Topology(queues=(QueueEntry(name="a", settings=settings),)))])
    assert drawn.arrows == [("a", "-.->", "dead letters", "elsewhere")]


def test_an_empty_topology_has_no_nodes() -> None:
    assert [*mermaid(Topology())] == ["flowchart LR"]


@pytest.mark.parametrize(
    "name",
    [
        'a"] --> b["',
        "end",
        "a\nb --> c",
        "`code`",
        "<script>",
        "#quot;",
        "#35;",
        "%% comment",
        "1. list",
        "- list",
        "__main__.x",
        "a;b",
        "\x1b[31m",
        "\u202e",
        "",
    ],
)
def test_a_name_is_never_syntax(name: str) -> None:
    topology = Topology(
        queues=(QueueEntry(name=name),),
        producers=(Producer(name=name, queue=name),),
        consumers=(Consumer(queue=name, name=name, type=name),),
        subscriptions=(SubscriptionEntry(types=name, queue=name),),
    )
    drawn = read([*mermaid(topology)])
    assert len(drawn.names) == 4
    assert len(drawn.arrows) == 3


@given(st.text(alphabet=st.characters(exclude_categories=()), min_size=1))
def test_every_escaped_name_can_be_unescaped(name: str) -> None:
    label = escaped(name)
    assert re.fullmatch(LABEL, label)
    assert "__" not in label
    assert unescaped(label) == name
