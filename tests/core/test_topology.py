"""Topology files: what they may contain, and the errors of those that are wrong."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.message.backoff import Exponential, Fixed, Listed
from tickwork.core.model import QueueSettings
from tickwork.core.topology import (
    Consumer,
    Producer,
    QueueEntry,
    SubscriptionEntry,
    Topology,
    parse,
)
from tickwork.errors import InvalidInput

COMMANDS = ("gatherfeed-commands", "publish-commands", "social-commands", "sm-commands")
FIVE_SERVICES = """
[limits]
backlog_bytes_max = 50_000_000

[[queues]]
name = "gatherfeed-commands"
[[queues]]
name = "publish-commands"
[[queues]]
name = "social-commands"
[[queues]]
name = "sm-commands"
[[queues]]
name = "brand-events"

[[queues]]
name = "gatherfeed-commands-dlq"
[[queues]]
name = "publish-commands-dlq"
[[queues]]
name = "social-commands-dlq"
[[queues]]
name = "sm-commands-dlq"
[[queues]]
name = "brand-events-dlq"

[[services]]
name = "apimom"
url = "https://apimom.example.com"
callers = ["gatherfeed"]

[[producers]]
name = "scalable-media"
queue = "gatherfeed-commands"
[[producers]]
name = "scalable-media"
queue = "publish-commands"
[[producers]]
name = "scalable-media"
queue = "social-commands"
[[producers]]
name = "scalable-media"
queue = "brand-events"
[[producers]]
name = "gatherfeed"
queue = "brand-events"
[[producers]]
name = "pages-plus"
queue = "brand-events"
[[producers]]
name = "social-good"
queue = "brand-events"

[[consumers]]
name = "scalable-media"
queue = "sm-commands"
max_batch_size = 10
max_batch_timeout = 5
dead_letter_queue = "sm-commands-dlq"
[[consumers]]
name = "scalable-media"
queue = "brand-events"
max_batch_size = 10
max_batch_timeout = 5
dead_letter_queue = "brand-events-dlq"
[[consumers]]
name = "gatherfeed"
queue = "gatherfeed-commands"
max_batch_size = 5
max_batch_timeout = 10
max_retries = 5
max_concurrency = 4
dead_letter_queue = "gatherfeed-commands-dlq"
[[consumers]]
name = "pages-plus"
queue = "publish-commands"
max_batch_size = 10
max_batch_timeout = 5
dead_letter_queue = "publish-commands-dlq"
[[consumers]]
name = "social-good"
queue = "social-commands"
dead_letter_queue = "social-commands-dlq"

[[subscriptions]]
types = "content.*"
queue = "social-commands"
"""


def faults(text: str) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        parse(text)
    return {fault.field: fault.message for fault in refused.value.errors}


def queues(*names: str) -> str:
    return "".join(f'[[queues]]\nname = "{name}"\n' for name in names)


def test_a_file_with_five_services_is_parsed() -> None:
    topology = parse(FIVE_SERVICES)
    by_name = {queue.name: queue for queue in topology.queues}
    assert len(by_name) == 10
    assert by_name["gatherfeed-commands"].settings == QueueSettings(
        max_batch_size=5,
        max_batch_timeout=10.0,
        max_retries=5,
        dead_letter_queue="gatherfeed-commands-dlq",
        backlog_bytes_max=50_000_000,
    )
    for name in COMMANDS:
        assert by_name[name].settings.dead_letter_queue == f"{name}-dlq"
    senders = [producer.name for producer in topology.producers if producer.queue == "brand-events"]
    assert senders == ["scalable-media", "gatherfeed", "pages-plus", "social-good"]
    gatherer = Consumer(queue="gatherfeed-commands", name="gatherfeed", max_concurrency=4)
    assert gatherer in topology.consumers
    assert topology.subscriptions == (
        SubscriptionEntry(types="content.*", queue="social-commands"),
    )


def test_a_service_that_is_bound_in_code_needs_no_url() -> None:
    (service,) = parse('[[services]]\nname = "keys"\ncallers = []\n').services
    assert (service.name, service.url) == ("keys", None)


def test_a_file_without_a_topology_has_an_empty_one() -> None:
    assert parse("") == parse("[server]\nport = 80\n") == Topology()


def test_missing_settings_have_their_defaults() -> None:
    assert parse(queues("a")).queues == (QueueEntry(name="a", settings=QueueSettings()),)


def test_every_setting_of_a_queue_can_be_given() -> None:
    text = """
    [[queues]]
    name = "a"
    shared = true
    paused = true
    max_batch_size = 100
    max_batch_timeout = 2.5
    max_retries = 7
    dead_letter_queue = "dead"
    retention_seconds = 3600
    visibility_timeout_seconds = 60
    timeout_seconds = 120
    backoff = {kind = "list", seconds = [1, 2.5]}
    tenant_claimed_max = 5
    rate_per_second = 2
    backlog_bytes_max = 1_000_000
    push_to = "shop"
    limit = "partner"
    history = "failures"
    history_seconds = 7200
    history_bodies = true
    [[queues]]
    name = "dead"
    shared = true
    """
    assert parse(text).queues[0] == QueueEntry(
        name="a",
        shared=True,
        paused=True,
        settings=QueueSettings(
            max_batch_size=100,
            max_batch_timeout=2.5,
            max_retries=7,
            dead_letter_queue="dead",
            retention_seconds=3600,
            visibility_timeout_seconds=60,
            timeout_seconds=120,
            backoff=Listed((1.0, 2.5)),
            tenant_claimed_max=5,
            rate_per_second=2.0,
            backlog_bytes_max=1_000_000,
            push_to="shop",
            limit="partner",
            history="failures",
            history_seconds=7200,
            history_bodies=True,
        ),
    )
    said = set(QueueSettings.__struct_fields__)
    assert all(f"{field} =" in text for field in said)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ('{kind = "exponential"}', Exponential()),
        ('{kind = "exponential", base_seconds = 1, cap_seconds = 9}', Exponential(1, 2, 9)),
        ('{kind = "fixed", seconds = 5}', Fixed(5)),
        ('{kind = "list", seconds = [60, 300]}', Listed((60, 300))),
    ],
)  # fmt: skip
def test_each_kind_of_backoff_is_a_table(said: str, meant: object) -> None:
    assert parse(f"{queues('a')}backoff = {said}").queues[0].settings.backoff == meant


def test_limits_are_the_defaults_of_every_queue() -> None:
    text = f"[limits]\nmax_retries = 9\n{queues('a', 'b')}max_retries = 2"
    assert [queue.settings.max_retries for queue in parse(text).queues] == [9, 2]


def test_a_queue_and_its_consumer_must_give_equal_settings() -> None:
    same = queues("a") + 'max_retries = 2\n[[consumers]]\nqueue = "a"\nmax_retries = 2'
    assert parse(same).queues[0].settings.max_retries == 2
    assert faults(same[:-1] + "3") == {
        "consumers[0].max_retries": "differs from queues[0].max_retries; keep one of them"
    }


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("[[queues]]\nname = \n", "tickwork.toml", "at line 2, column 8"),
        ("a = [" * 5_000, "tickwork.toml", ""),
        ("a = " + "9" * 5_000, "tickwork.toml", "is not valid TOML"),
        ("[[queue]]\nname = 'a'", "tickwork.toml", "did you mean 'queues'"),
        ("[queues]\nname = 'a'", "queues", "write [[queues]]"),
        ("queues = [1]", "queues[0]", "write [[queues]]"),
        ("limits = 3", "limits", "write [limits]"),
        ("[limits]\nmax_retires = 3", "limits.max_retires", "did you mean 'max_retries'?"),
        ("[limits]\nmax_retries = 101", "limits.max_retries", "from 0 to 100, not 101"),
        ("[[queues]]\nmax_retries = 1", "queues[0].name", "is missing"),
        ("[[queues]]\nname = 7", "queues[0].name", "a text, not 7"),
        ("[[queues]]\nname = ''", "queues[0].name", "1 to 120 characters"),
        (queues("a", "b", "a"), "queues[2].name", "'a' is already defined in queues[0]"),
        (queues("a") + "max_retrys = 1", "queues[0].max_retrys", "did you mean 'max_retries'?"),
        (queues("a") + "colour = 1", "queues[0].colour", "use backlog_bytes_max, backoff"),
        (queues("a") + "max_retries = 200", "queues[0].max_retries", "from 0 to 100, not 200"),
        (queues("a") + "max_retries = 1.5", "queues[0].max_retries", "a whole number, not 1.5"),
        (queues("a") + "max_retries = true", "queues[0].max_retries", "a whole number, not True"),
        (queues("a") + "max_retries = " + "9" * 400, "queues[0].max_retries", "a whole number"),
        (queues("a") + "rate_per_second = nan", "queues[0].rate_per_second", "not nan"),
        (queues("a") + "rate_per_second = 'fast'", "queues[0].rate_per_second", "a number, not"),
        (queues("a") + "shared = 1", "queues[0].shared", "true or false, not 1"),
        (queues("a") + "rate_limit = 1", "queues[0].rate_limit", "use rate_per_second"),
        (queues("a") + "backoff = 3", "queues[0].backoff", '{"kind": "fixed"'),
        (queues("a") + "backoff = {seconds = 3}", "queues[0].backoff.kind", "is missing"),
        (queues("a") + 'backoff = {kind = "slow"}', "queues[0].backoff.kind", "not 'slow'"),
        (queues("a") + 'backoff = {kind = "fixed", second = 3}', "queues[0].backoff.second",
         "did you mean 'seconds'?"),
        (queues("a") + 'backoff = {kind = "list", seconds = [1, "x"]}',
         "queues[0].backoff.seconds[1]", "a number"),
        (queues("a") + 'backoff = {kind = "fixed", seconds = -3}', "queues[0].backoff.seconds",
         "from 0"),
        (queues("a") + "max_batch_timeout_seconds = 1",
         "queues[0].max_batch_timeout_seconds", "did you mean 'max_batch_timeout'?"),
        (queues("a") + "max_batch_timeout = 61", "queues[0].max_batch_timeout", "from 0 to 60"),
        (queues("a") + 'dead_letter_queue = "a"', "queues[0].dead_letter_queue", "another queue"),
        (queues("emails") + 'dead_letter_queue = ""', "queues[0].dead_letter_queue",
         "1 to 120 characters"),
        (queues("emails") + '[[consumers]]\nqueue = "emials"', "consumers[0].queue",
         "did you mean 'emails'? Otherwise add [[queues]] with name = \"emials\""),
        (queues("a") + 'shared = true\ndead_letter_queue = "b"\n' + queues("b"),
         "queues[0].dead_letter_queue", "set shared = true in queues[1]"),
        (queues("a") + '[[consumers]]\nqueue = "b"', "consumers[0].queue", "the file has 'a'"),
        ("[[consumers]]\nname = 'b'", "consumers[0].queue", "is missing"),
        (queues("a") + '[[consumers]]\nqueue = "a"\n' * 2, "consumers[1].queue",
         "already has a consumer in consumers[0]"),
        (queues("a") + '[[consumers]]\nqueue = "a"\nmax_batch_size = 0',
         "consumers[0].max_batch_size", "from 1 to 100"),
        (queues("a") + '[[consumers]]\nqueue = "a"\nmax_concurrency = 0',
         "consumers[0].max_concurrency", "from 1"),
        (queues("a") + '[[consumers]]\nqueue = "a"\nretry_delay = 5',
         "consumers[0].retry_delay", 'use backoff = {kind = "fixed"'),
        (queues("a") + '[[producers]]\nqueue = "a"\nbinding = "A"\nname = "x"',
         "producers[0].binding", "name ="),
        (queues("a") + '[[producers]]\nqueue = "a"\nname = "x"\n' * 2, "producers[1].queue",
         "the same as in producers[0]"),
        (queues("a") + '[[subscriptions]]\nqueue = "a"', "subscriptions[0].types", "is missing"),
        (queues("a") + '[[subscriptions]]\nqueue = "a"\ntypes = "*.x"', "subscriptions[0].types",
         "as its last character"),
        (queues("a") + '[[subscriptions]]\nqueue = "a"\ntypes = "x"\n' * 2,
         "subscriptions[1].types", "the same as in subscriptions[0]"),
        (queues("a") + '[[subscriptions]]\nqueue = "a"\ntypes = "x"\nshared = true',
         "subscriptions[0].shared", "set shared = true in queues[0]"),
        (queues("a") + 'dead_letter_queue = "b"\n[[subscriptions]]\nqueue = "b"\ntypes = "x"\n'
         "shared = true", "subscriptions[0].shared", 'true in [[queues]] with name = "b" as well'),
    ],
)  # fmt: skip
def test_an_error_names_its_path_and_how_to_fix_it(text: str, place: str, says: str) -> None:
    found = faults(text)
    assert [*found] == [place]
    assert says in found[place]


def test_naming_a_dead_letter_queue_creates_it() -> None:
    text = (
        "[limits]\nmax_retries = 9\n"
        + queues("a", "b", "c")
        + 'shared = true\ndead_letter_queue = "c-dlq"\n'
        + "[[consumers]]\nqueue = 'a'\ndead_letter_queue = 'a-dlq'\n"
        + "[[consumers]]\nqueue = 'b'\ndead_letter_queue = 'c-dlq'\n"
        + "[[consumers]]\nqueue = 'a-dlq'\n"
    )
    found = {queue.name: queue for queue in parse(text).queues}
    assert [name for name, value in found.items() if value.implied] == ["c-dlq", "a-dlq"]
    assert found["a-dlq"] == QueueEntry(
        name="a-dlq", settings=QueueSettings(max_retries=9), implied=True
    )
    assert found["c-dlq"].shared
    declared = {queue.name: queue for queue in parse(text + queues("a-dlq")).queues}
    assert not declared["a-dlq"].implied


def test_dead_letter_queues_must_not_form_a_cycle() -> None:
    text = "".join(
        f'[[queues]]\nname = "{name}"\ndead_letter_queue = "{dead}"\n'
        for name, dead in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"))
    )
    assert faults(text) == {
        "queues[1].dead_letter_queue": "is a cycle: b → c → d → b; remove one dead_letter_queue"
    }


def test_all_errors_are_reported_at_once() -> None:
    text = queues("a") + "max_retries = 200\ncolour = 1\n[[consumers]]\nqueue = 'x'\n"
    assert set(faults(text)) == {
        "queues[0].max_retries",
        "queues[0].colour",
        "consumers[0].queue",
    }


def test_a_producer_has_a_name_and_a_queue() -> None:
    text = queues("a") + '[[producers]]\nname = "shop"\nqueue = "a"'
    assert parse(text).producers == (Producer(name="shop", queue="a"),)


VALUES = st.recursive(
    st.one_of(
        st.integers(),
        st.floats(),
        st.booleans(),
        st.sampled_from(["a", "b", "list", "fixed", "order.*", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "seconds", "name"]), inner, max_size=3),
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [*QueueSettings.__struct_fields__, "name", "queue", "types", "shared", "paused", "x"]
)
SECTIONS = st.sampled_from(["queues", "producers", "consumers", "subscriptions", "limits", "x"])


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{key} = {toml(inner_value)}" for key, inner_value in value.items())
            + "}"
        )
    return repr(value)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(SECTIONS, st.booleans(), st.dictionaries(KEYS, VALUES, max_size=5)), max_size=5
    )
)
def test_any_file_is_parsed_or_refused(
    entries: list[tuple[str, bool, dict[str, object]]],
) -> None:
    text = ""
    for section, many, values in entries:
        text += f"[[{section}]]\n" if many else f"[{section}]\n"
        text += "".join(f"{key} = {toml(value)}\n" for key, value in values.items())
    with suppress(InvalidInput):
        assert isinstance(parse(text), Topology)
