"""Errors that are the same but for their particulars, as one text.

What differs from one failure to the next (numbers, ids, quoted values) is replaced by a mark,
so that ten thousand timeouts are one group and not ten thousand. Ids and numbers have the
same mark: an id may happen to be all digits.
"""

from __future__ import annotations

import re

from tickwork.core.policy.telling import telling_line

FINGERPRINT_LENGTH_MAX = 200
_LOOKED_AT_MAX = 2_000

_QUOTED = re.compile(
    "|".join(
        # A quote between letters is an apostrophe. What is cut off may have lost its second quote.
        rf"(?<!\w){quote}(?:\\.|[^{quote}\\]|{quote}(?=\w))*(?:{quote}|\\?$)"
        for quote in ("'", '"', "`")
    )
)
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![a-z0-9])", re.IGNORECASE)
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]+")
_LONG_WORD = re.compile(r"[A-Za-z0-9]{8,}")
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
_PART_OF_NUMBER = re.compile(r"\d+(?:[eE]\d*)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?")
_SIGNED = re.compile(r"(?<!\w)[-+]<n>")

_HEX_LENGTH_MIN = 12
"""No word has so many letters that are all from a to f."""

_ID_LENGTH_MIN = 16
"""Of letters and digits: a ULID, or what object stores and clouds call things."""


def fingerprint(error: str | None) -> str:
    """The group an error belongs to; empty for none."""
    text = telling_line(error)[:_LOOKED_AT_MAX]
    # Each step looks first whether it has anything to do: most errors are plain words.
    if "'" in text or '"' in text or "`" in text:
        text = _QUOTED.sub("<text>", text)
    if text.count("-") >= 4:
        text = _UUID.sub("<n>", text)
    if "0x" in text or "0X" in text:
        text = _ADDRESS.sub("<n>", text)
    text = _NUMBER.sub("<n>", _LONG_WORD.sub(_unless_id, text))
    if "-<n>" in text or "+<n>" in text:
        text = _SIGNED.sub("<n>", text)
    return " ".join(text.split())[:FINGERPRINT_LENGTH_MAX]


def _unless_id(found: re.Match[str]) -> str:
    """A long word, or the mark if it is an id; what may be a number is left for the numbers."""
    word = found[0]
    if _PART_OF_NUMBER.fullmatch(word):
        return word
    if word.isalpha():
        is_id = len(word) >= _HEX_LENGTH_MIN and _HEX.fullmatch(word) is not None
    else:
        is_id = len(word) >= _ID_LENGTH_MIN or _HEX.fullmatch(word) is not None
    return "<n>" if is_id else word
