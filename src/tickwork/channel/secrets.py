"""Encrypts secrets before they are stored: signing secrets, header values, tokens.

AES-GCM, with tenant, row and field as associated data: a ciphertext that is copied to another row
does not decrypt. A ciphertext names its key, so that keys can rotate: new secrets use the first
key, old ones are readable as long as their key is listed.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from os import urandom
from pathlib import Path
from tempfile import NamedTemporaryFile
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.secret_keys import KEY_BYTES, KEY_VARIABLE, read_keys
from tickwork.errors import FieldError, InvalidInput, StoreBroken

_NONCE_BYTES = 12
_KEY_NAME_BYTES = 4
_VERSION = b"\x01"


class SecretBox:
    """Encrypts and decrypts with a list of keys, the current one first. `source` is where an error
    says that they are listed."""

    def __init__(self, keys: Sequence[bytes], source: str = KEY_VARIABLE) -> None:
        assert keys
        self._ciphers = {_name(key): AESGCM(key) for key in keys}
        self._current, self._source = _name(keys[0]), source

    @classmethod
    def from_text(cls, text: str, source: str = KEY_VARIABLE) -> SecretBox:
        """Keys in base64, separated by commas. Raises `InvalidInput`, which names the `source`."""
        return cls(read_keys(text, source), source)

    def encrypt(self, secret: str, tenant: str, row: str, field: str) -> bytes:
        """The ciphertext of a secret in a field of a tenant's row."""
        nonce = urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(
            nonce, secret.encode(), _associated(tenant, row, field)
        )
        return _VERSION + self._current + nonce + sealed

    def decrypt(self, stored: bytes, tenant: str, row: str, field: str) -> str:
        """The secret. Raises `StoreBroken` if its key is not listed or it was changed."""
        version, rest = stored[:1], stored[1:]
        name, nonce = rest[:_KEY_NAME_BYTES], rest[_KEY_NAME_BYTES:][:_NONCE_BYTES]
        cipher = self._ciphers.get(name)
        if version != _VERSION or cipher is None:
            raise StoreBroken(
                f"{_words(row, field)} was encrypted with another key; add that key to "
                f"{self._source}, after the current one and a comma"
            )
        try:
            opened = cipher.decrypt(
                nonce, rest[_KEY_NAME_BYTES + _NONCE_BYTES :], _associated(tenant, row, field)
            )
        except (InvalidTag, ValueError):
            raise StoreBroken(f"{_words(row, field)} was changed in the database") from None
        return opened.decode()


def new_key() -> str:
    """A random key in base64."""
    return b64encode(urandom(KEY_BYTES)).decode()


def key_in_file(path: Path, *, make_key: bool = True) -> str:
    """The key in a file that only its owner may read. If there is none, `make_key` makes it. Raises
    `InvalidInput` if there is still none, or if it cannot be read."""
    try:
        if make_key and not path.exists():
            _make_key_file(path)
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        fault = f"is missing, and there is no key file {path.name}"
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        fault = (
            f"is missing, and the key file {path.name} cannot be read or made ({reason}); run this "
            "as the user who owns it, or set the variable to the key"
        )
    raise InvalidInput([FieldError(KEY_VARIABLE, fault)])


def _make_key_file(path: Path) -> None:
    # Written whole before it has its name: nobody reads half a key, and the first one counts.
    with NamedTemporaryFile("w", encoding="ascii", dir=path.parent) as file:
        file.write(new_key() + "\n")
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(file.name, path)


def _name(key: bytes) -> bytes:
    return blake2b(key, digest_size=_KEY_NAME_BYTES, person=b"tickwork-key").digest()


def _words(row: str, field: str) -> str:
    """What a secret is, in an error."""
    owner, _, owner_id = row.partition(":")
    if row == "tenant":
        return "the tenant's webhook secret"
    if owner != "endpoint":
        return f"the {field} of {row}"
    name = f"secret {field}" if field.startswith("header:") else f"{field} secret"
    return f"the {name.replace(':', ' ')} of endpoint {public_id(Prefix.ENDPOINT, UUID(owner_id))}"


def _associated(tenant: str, row: str, field: str) -> bytes:
    # Lengths, so that no two triples give the same bytes.
    return b"".join(len(part.encode()).to_bytes(4) + part.encode() for part in (tenant, row, field))
