"""Signatures v1a, checked by `cryptography` itself and by the local listener's own check."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from tests.core.messages import NOON
from tickwork.channel.ed25519 import checker, new_private_key, public_key_of, signer
from tickwork.core.delivery.signature import is_signed, signature_headers
from tickwork.errors import InvalidInput

SEED, OTHER = b"s" * 32, b"o" * 32
BODY = b'{"order": 7}'


def headers_of(*seeds: bytes, body: bytes = BODY) -> dict[str, str]:
    keys = [signer(new_private_key(seed)) for seed in seeds]
    return signature_headers(keys, "msg_1", NOON, body)


def check(seed: bytes, headers: dict[str, str], body: bytes = BODY) -> bool:
    """As a receiver does with the public key."""
    public = b64decode(public_key_of(new_private_key(seed)).removeprefix("whpk_"))
    signed = b".".join(
        (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body)
    )
    for part in headers["webhook-signature"].split():
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(
                b64decode(part.removeprefix("v1a,")), signed
            )
        except InvalidSignature:
            continue
        return True
    return False


@given(seed=st.binary(min_size=32, max_size=32), body=st.binary(max_size=200))
def test_a_public_key_accepts_every_signature_of_its_private_key(seed: bytes, body: bytes) -> None:
    headers = headers_of(seed, body=body)
    assert headers["webhook-signature"].startswith("v1a,")
    assert check(seed, headers, body)
    known = checker(public_key_of(new_private_key(seed)))
    assert is_signed([known], headers, body, NOON)
    assert not is_signed([known], headers, body + b" ", NOON)
    assert not is_signed([known], headers, body, NOON + timedelta(minutes=6))


def test_keys_have_the_form_of_standard_webhooks() -> None:
    private = new_private_key(SEED)
    public = public_key_of(private)
    assert private.startswith("whsk_")
    assert public.startswith("whpk_")
    decoded = b64decode(private.removeprefix("whsk_"))
    assert decoded == SEED + b64decode(public.removeprefix("whpk_"))


def test_either_key_is_enough_while_they_rotate() -> None:
    headers = headers_of(SEED, OTHER)
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert check(SEED, headers)
    assert check(OTHER, headers)
    assert not check(SEED, headers_of(OTHER))


@pytest.mark.parametrize(
    "signature", ["", "v1a,", "v1a,x", "v1a,====", "v1," + "a" * 86, "v1a," + "A" * 86 + "=="]
)
def test_a_signature_of_another_form_or_key_is_refused(signature: str) -> None:
    known = checker(public_key_of(new_private_key(SEED)))
    headers = {**headers_of(SEED), "webhook-signature": signature}
    assert not is_signed([known], headers, BODY, NOON)


@pytest.mark.parametrize("key", ["", "whsk_", "whpk_x", "whsec_" + b64encode(SEED).decode()])
def test_what_is_no_key_is_refused_without_repeating_it(key: str) -> None:
    for use in (signer, public_key_of, checker):
        with pytest.raises(InvalidInput) as raised:
            use(key)
        assert "must be wh" in str(raised.value)
        assert key.partition("_")[2] in ("", "x") or key not in str(raised.value)
