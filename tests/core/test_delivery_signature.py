"""Signatures: the independent package `standardwebhooks` accepts ours, and nothing else."""

import json
from base64 import b64encode
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tickwork.clock import now
from tickwork.core.delivery.signature import (
    TOLERANCE_SECONDS,
    is_signed,
    new_secret,
    secret_key,
    signature_headers,
)
from tickwork.errors import InvalidInput

OLD, NEW = new_secret(b"o" * 24), new_secret(b"n" * 64)
BODY = b'{"order": 7}'


def signed(*secrets: str, body: bytes = BODY, delivery_id: str = "msg_1") -> dict[str, str]:
    return signature_headers([secret_key(secret) for secret in secrets], delivery_id, now(), body)


@given(
    random_bytes=st.binary(min_size=24, max_size=64),
    payload=st.dictionaries(st.text(), st.text() | st.integers(-100, 100)),
    delivery_id=st.from_regex(r"msg_[0-9a-f]{32}(\.[a-z]+%5B[0-9]%5D)?", fullmatch=True),
)
def test_a_receiver_accepts_every_signed_webhook(
    random_bytes: bytes, payload: dict[str, object], delivery_id: str
) -> None:
    secret, body = new_secret(random_bytes), json.dumps(payload).encode()
    headers = signed(secret, body=body, delivery_id=delivery_id)
    assert Webhook(secret).verify(body, headers) == payload


@pytest.mark.parametrize("known", [OLD, NEW])
def test_either_secret_is_enough_while_they_rotate(known: str) -> None:
    assert Webhook(known).verify(BODY, signed(NEW, OLD)) == {"order": 7}


def test_the_signature_of_the_current_secret_comes_first() -> None:
    first, second = signed(NEW, OLD)["webhook-signature"].split(" ")
    assert first == signed(NEW)["webhook-signature"]
    assert second == signed(OLD)["webhook-signature"]


@pytest.mark.parametrize(
    "changed", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"]
)
def test_a_receiver_refuses_a_webhook_that_was_changed(changed: str) -> None:
    headers, body = signed(NEW), BODY
    if changed == "body":
        body = BODY.replace(b"7", b"8")
    elif changed == "webhook-timestamp":
        headers[changed] = str(int(headers[changed]) - 1)
    elif changed == "webhook-id":
        headers[changed] = "msg_2"
    else:
        headers[changed] = "v1," + b64encode(bytes(32)).decode()
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body, headers)


def test_a_receiver_refuses_a_webhook_that_another_secret_signed() -> None:
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(BODY, signed(OLD))


def test_without_a_secret_there_is_no_signature() -> None:
    assert signed()["webhook-signature"] == ""


@given(st.binary(min_size=24, max_size=64))
def test_the_key_of_a_new_secret_is_its_random_bytes(random_bytes: bytes) -> None:
    assert secret_key(new_secret(random_bytes)) == random_bytes


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        NEW.removeprefix("whsec_"),
        new_secret(b"k" * 23),
        new_secret(b"k" * 65),
        f"{OLD}!",
        "whsec_" + "é" * 32,
        f"{OLD}\n",
        OLD[:-1],
    ],
)
def test_a_text_that_is_no_secret_is_refused_by_the_name_of_its_field(secret: str) -> None:
    with pytest.raises(InvalidInput, match="must be whsec_ and 24 to 64 bytes") as refused:
        secret_key(secret, field="signing_secret")
    assert [error.field for error in refused.value.errors] == ["signing_secret"]


def test_a_signature_of_the_independent_package_is_accepted() -> None:
    at = now()
    signature = Webhook(NEW).sign("msg_1", at, BODY.decode())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": f"v1a,other v1,wrong {signature}",
    }
    keys = [secret_key(OLD), secret_key(NEW)]
    assert is_signed(keys, headers, BODY, at)
    assert not is_signed(keys[:1], headers, BODY, at)
    assert not is_signed([], headers, BODY, at)
    assert not is_signed(keys, headers, BODY + b" ", at)


@pytest.mark.parametrize("seconds", [TOLERANCE_SECONDS + 2, -TOLERANCE_SECONDS - 2])
def test_a_signature_of_another_time_is_not_accepted(seconds: int) -> None:
    headers = signed(NEW)
    assert is_signed([secret_key(NEW)], headers, BODY, now())
    assert not is_signed([secret_key(NEW)], headers, BODY, now() + timedelta(seconds=seconds))


@given(
    st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]),
    st.text(max_size=20) | st.text("\ud800\udcff9², v1", max_size=20),
)
def test_no_header_of_a_sender_breaks_the_check(name: str, value: str) -> None:
    headers = signed(NEW)
    if value != headers[name]:
        assert not is_signed([secret_key(NEW)], {**headers, name: value}, BODY, now())
    del headers[name]
    assert not is_signed([secret_key(NEW)], headers, BODY, now())
