"""The keys that encrypt secrets, as they are given: 32 random bytes in base64, the current one
first, with commas between them."""

from __future__ import annotations

from base64 import b64decode

from tickwork.errors import FieldError, InvalidInput

KEY_BYTES = 32
KEY_VARIABLE = "TICKWORK_SECRET_KEY"


def read_keys(text: str, source: str = KEY_VARIABLE) -> list[bytes]:
    """The keys in a text. Raises `InvalidInput`, which names the `source` and not the text."""
    try:
        keys = [b64decode(part.strip(), validate=True) for part in text.split(",")]
    except ValueError:
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        fault = (
            f"must be {KEY_BYTES} random bytes in base64, as `openssl rand -base64 32` prints, "
            "or several such texts with commas between them"
        )
        raise InvalidInput([FieldError(source, fault)])
    return keys
