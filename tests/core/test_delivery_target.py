"""Outside targets: what is read is what was given, and every fault names its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.delivery.target import (
    CHANNELS_MAX,
    RECIPIENTS_MAX,
    ChannelsTarget,
    EmailTarget,
    Envelope,
    OutsideTarget,
    WebhookTarget,
    is_address,
    names_of_channels,
    read_envelope,
    read_outside_target,
    render_target,
    urls_of,
)
from tickwork.core.fields import Reader
from tickwork.errors import FieldError

URL = "https://example.com/in"
HOOK = {"type": "webhook", "url": URL}
MAIL = {"type": "email", "to": "ada@example.com", "subject": "Hi", "text": "Hello"}
CHAT = {"type": "slack", "url": URL, "text": "Hello"}


def read(fields: Any) -> tuple[OutsideTarget | None, list[FieldError]]:
    faults: list[FieldError] = []
    target = read_outside_target(Reader(fields, faults, "target."), fields["type"])
    return target, faults


def sound(fields: Any) -> OutsideTarget:
    target, faults = read(fields)
    assert not faults
    assert target is not None
    return target


def fault_fields(fields: Any) -> list[str]:
    return list(dict.fromkeys(fault.field.removeprefix("target.") for fault in read(fields)[1]))


TEXTS = st.text(min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
PLAIN = TEXTS.filter(lambda text: "{{" not in text)
LINES = PLAIN.filter(str.isprintable)
ADDRESSES = st.from_regex(r"[a-z0-9.+_-]{1,20}@[a-z0-9-]{1,20}\.[a-z]{2,5}", fullmatch=True)
WEBHOOKS = st.fixed_dictionaries(
    {"type": st.just("webhook"), "url": TEXTS},
    optional={
        "method": st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "GET"]),
        "headers": st.dictionaries(
            st.from_regex(r"x-[a-z0-9]{1,9}", fullmatch=True), st.text("ab \tÿ", max_size=9),
            max_size=3,
        ),
        "timeout_seconds": st.integers(10, 300),
        "first_byte_seconds": st.integers(1, 10),
    },
)  # fmt: skip
EMAILS = st.fixed_dictionaries(
    {
        "type": st.just("email"),
        "to": st.lists(ADDRESSES, min_size=1, max_size=3),
        "subject": LINES | st.just("Hello {{ payload.name }}"),
        "text": PLAIN | st.just("{{ slot }}"),
    },
    optional={"html": PLAIN},
)
CHATS = st.fixed_dictionaries(
    {"type": st.sampled_from(["slack", "discord"]), "url": TEXTS, "text": PLAIN}
) | st.fixed_dictionaries(
    {"type": st.just("telegram"), "url": TEXTS, "text": PLAIN, "chat_id": TEXTS}
)
SINGLE = WEBHOOKS | EMAILS | CHATS
TARGETS = SINGLE | st.fixed_dictionaries(
    {"type": st.just("channels"), "channels": st.lists(SINGLE, min_size=1, max_size=3)}
)


@given(TARGETS)
def test_a_target_that_is_rendered_reads_as_itself(fields: dict[str, Any]) -> None:
    target = sound(fields)
    rendered = msgspec.json.decode(msgspec.json.encode(render_target(target)))
    assert sound(rendered) == target
    assert all(rendered[name] == fields[name] for name in rendered if name != "channels")


@given(TARGETS, st.none() | st.dictionaries(st.text(), st.integers(-9, 9)))
def test_the_body_of_a_message_carries_the_target_and_its_payload(
    fields: dict[str, Any], payload: Any
) -> None:
    envelope = Envelope(sound(fields), payload)
    assert read_envelope(msgspec.json.encode(envelope)) == envelope


def test_what_is_not_given_has_its_default() -> None:
    assert sound(HOOK) == WebhookTarget(URL, "POST", {}, None)
    assert sound({**HOOK, "method": None, "headers": None, "timeout_seconds": None}) == sound(HOOK)
    assert sound(MAIL) == EmailTarget(("ada@example.com",), "Hi", "Hello")
    assert render_target(sound(HOOK)) == HOOK


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"type": "webhook"}, ["url"]),
        ({**HOOK, "url": " "}, ["url"]),
        ({**HOOK, "url": 5}, ["url"]),
        ({**HOOK, "method": "post"}, ["method"]),
        ({**HOOK, "method": "CONNECT"}, ["method"]),
        ({**HOOK, "headers": "X-A: b"}, ["headers"]),
        ({**HOOK, "headers": {"Host": "x", "X-A": 5}}, ["headers.Host", "headers.X-A"]),
        ({**HOOK, "headers": {5: "x"}}, ["headers.5"]),
        ({**HOOK, "timeout_seconds": 0}, ["timeout_seconds"]),
        ({**HOOK, "timeout_seconds": 301}, ["timeout_seconds"]),
        ({**HOOK, "timeout_seconds": 1.5}, ["timeout_seconds"]),
        ({**HOOK, "timeout_seconds": True}, ["timeout_seconds"]),
        ({**HOOK, "first_byte_seconds": 0}, ["first_byte_seconds"]),
        ({**HOOK, "first_byte_seconds": 31}, ["first_byte_seconds"]),
        ({**HOOK, "timeout_seconds": 5, "first_byte_seconds": 6}, ["first_byte_seconds"]),
        (
            {"type": "channels", "channels": [{**HOOK, "first_byte_seconds": 11}, HOOK]},
            ["channels[0].first_byte_seconds"],
        ),
        (
            {"type": "webhook", "endpoint": "shop", "first_byte_seconds": 5},
            ["first_byte_seconds"],
        ),
        ({**HOOK, "secret": "x"}, ["secret"]),
        ({"type": "webhook", "method": "x", "headers": 5}, ["url", "method", "headers"]),
        ({"type": "email"}, ["to"]),
        ({**MAIL, "to": []}, ["to"]),
        ({**MAIL, "to": ["a@b.c"] * (RECIPIENTS_MAX + 1)}, ["to"]),
        ({**MAIL, "to": {"a@b.c": 1}}, ["to"]),
        ({**MAIL, "to": ["a@b.c", "nobody", 5]}, ["to[1]", "to[2]"]),
        ({**MAIL, "subject": "a\nBcc: x@y.z"}, ["subject"]),
        ({**MAIL, "subject": "x" * 999}, ["subject"]),
        ({**MAIL, "subject": ""}, ["subject"]),
        ({**MAIL, "subject": "{{ now }}", "html": "{{ x }}"}, ["subject", "html"]),
        ({"type": "email", "to": "a@b.c", "subject": "x"}, ["text"]),
        ({**MAIL, "text": 5}, ["text"]),
        ({**MAIL, "bcc": "a@b.c"}, ["bcc"]),
        ({"type": "slack"}, ["url", "text"]),
        ({**CHAT, "text": "{{ x }}"}, ["text"]),
        ({**CHAT, "chat_id": "1"}, ["chat_id"]),
        ({**CHAT, "type": "telegram"}, ["chat_id"]),
        ({**CHAT, "type": "telegram", "chat_id": 5}, ["chat_id"]),
        ({"type": "channels"}, ["channels"]),
        ({"type": "channels", "channels": []}, ["channels"]),
        ({"type": "channels", "channels": [HOOK] * (CHANNELS_MAX + 1)}, ["channels"]),
        ({"type": "channels", "channels": [5, {"type": []}]}, ["channels[0]", "channels[1].type"]),
        ({"type": "channels", "channels": [{"url": URL}]}, ["channels[0]"]),
        ({"type": "channels", "channels": [{"type": "channels"}]}, ["channels[0].type"]),
        ({"type": "channels", "channels": [{"type": "queue"}]}, ["channels[0].type"]),
        (
            {"type": "channels", "channels": [HOOK, {**HOOK, "url": 1}, {**MAIL, "to": "x"}]},
            ["channels[1].url", "channels[2].to[0]"],
        ),
    ],
)
def test_every_fault_names_its_field(fields: dict[str, Any], wrong: list[str]) -> None:
    assert fault_fields(fields) == wrong


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
ANYTHING = SCALARS | TARGETS | st.lists(SCALARS | TARGETS, max_size=2) | st.dictionaries(
    st.text(max_size=5), SCALARS, max_size=2
)  # fmt: skip


@given(
    st.sampled_from(["webhook", "email", "slack", "discord", "telegram", "channels"]),
    st.dictionaries(
        st.sampled_from(
            ["url", "method", "headers", "timeout_seconds", "first_byte_seconds", "to", "subject",
             "text", "html", "chat_id", "channels", "other"]
        ),
        ANYTHING,
    ),
)  # fmt: skip
def test_any_values_are_read_or_refused_and_never_raise(kind: str, fields: dict[str, Any]) -> None:
    target, faults = read({**fields, "type": kind})
    if not faults:
        assert target is not None
        assert sound(render_target(target)) == target


@pytest.mark.parametrize(
    "address",
    [
        "", "@", "a@", "@b.c", "a b@c.d", "a@b.c, d@e.f", "a@b.c;d@e.f", "<a@b.c>", "Ada <a@b.c>",
        "a@b.c\r\nBcc: x@y.z", "a@b.c\n", "a\0@b.c", "a(b)@c.d", "g:a@b.c", '"@b.c', "a@[", "a\\@b",
        "a@@b.c", "x" * 320 + "@b.c", None, 5, ["a@b.c"],
    ],
)  # fmt: skip
def test_what_is_not_one_email_address_is_refused(address: object) -> None:
    assert not is_address(address)


@pytest.mark.parametrize("address", ["ada@example.com", "a.b+c_d-e@x.example", "root@localhost"])
def test_an_email_address_is_accepted(address: str) -> None:
    assert is_address(address)


def test_a_channel_has_a_number_only_if_its_type_occurs_twice() -> None:
    target = sound({"type": "channels", "channels": [HOOK, MAIL, HOOK, CHAT]})
    assert isinstance(target, ChannelsTarget)
    assert names_of_channels(target.channels) == ("webhook[0]", "email", "webhook[1]", "slack")


def test_the_urls_of_a_target_are_named_by_their_fields() -> None:
    assert urls_of(sound(MAIL)) == []
    assert urls_of(sound(CHAT)) == [("url", URL)]
    several = sound({"type": "channels", "channels": [MAIL, HOOK, CHAT]})
    assert urls_of(several) == [("channels[1].url", URL), ("channels[2].url", URL)]
