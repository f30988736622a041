"""Signs and checks webhooks with Ed25519, the signature `v1a` of Standard Webhooks.

We keep the private key, `whsk_…`: the seed and the public key, 64 bytes. The receiver gets the
public key, `whpk_…`, with which it can check a signature and make none.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tickwork.core.delivery.signature import Check, Sign
from tickwork.errors import FieldError, InvalidInput

PRIVATE_PREFIX, PUBLIC_PREFIX = "whsk_", "whpk_"
SEED_BYTES, PUBLIC_BYTES = 32, 32
_MARK = "v1a,"


def new_private_key(seed: bytes) -> str:
    """A private key made of random bytes."""
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PRIVATE_PREFIX + b64encode(seed + public).decode()


def public_key_of(private_key: str) -> str:
    """The public key of a private one."""
    public = _decoded(private_key, PRIVATE_PREFIX, SEED_BYTES + PUBLIC_BYTES)[SEED_BYTES:]
    return PUBLIC_PREFIX + b64encode(public).decode()


def signer(private_key: str) -> Sign:
    """Signs with a private key. Raises `InvalidInput`."""
    seed = _decoded(private_key, PRIVATE_PREFIX, SEED_BYTES + PUBLIC_BYTES)[:SEED_BYTES]
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return lambda signed: _MARK + b64encode(key.sign(signed)).decode()


def checker(public_key: str) -> Check:
    """Checks signatures with a public key. Raises `InvalidInput`."""
    key = Ed25519PublicKey.from_public_bytes(_decoded(public_key, PUBLIC_PREFIX, PUBLIC_BYTES))

    def check(signed: bytes, signature: str) -> bool:
        if not signature.startswith(_MARK):
            return False
        try:
            key.verify(b64decode(signature.removeprefix(_MARK), validate=True), signed)
        except (InvalidSignature, Base64Error, ValueError):
            return False
        return True

    return check


def _decoded(key: str, prefix: str, length: int) -> bytes:
    try:
        decoded = b64decode(key.removeprefix(prefix), validate=True)
    except (Base64Error, ValueError):
        decoded = b""
    if not key.startswith(prefix) or len(decoded) != length:
        fault = f"must be {prefix} and {length} bytes in base64"
        raise InvalidInput([FieldError("secret", fault)])
    return decoded
