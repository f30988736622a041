"""The one line of an error that tells what happened.

| error | line |
|---|---|
| a text | its first line |
| a traceback | the line that names the exception, with the first line of its message |
| one with causes | that of the exception that was raised last |
| an exception group | that of its first error, and of which group it is the first |

Help texts, links and frames follow a message or stand before it; the last line of an error says
nothing as a rule.

Errors that are the same but for their particulars, as one text.

What differs from one failure to the next (numbers, ids, quoted values) is replaced by a mark,
so that ten thousand timeouts are one group and not ten thousand. Ids and numbers have the
same mark: an id may happen to be all digits.
"""

from __future__ import annotations

import re

SUMMARY_LENGTH_MAX = 500

OMITTED_MARK = "the middle is left out …"
"""So ends the line that stands for the middle of an error that was too long."""

GROUPS_MAX = 10
"""So deep groups are looked into; Python shows no more."""

_PLAIN_HEADING = "Traceback (most recent call last):"
_HEADING = re.compile(
    # What older versions stored has lost the blanks before it.
    rf"(?: {{0,2}}\+ )?(?:Exception Group )?{re.escape(_PLAIN_HEADING)}"
)
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_FRAME = '  File "'
_FIRST_OF_GROUP = re.compile(r"(?P<indent> *)\+-\+-+ 1 -+")
_COUNTED = re.compile(r"(?P<group>.*) \((?P<count>\d+) sub-exceptions?\)")
_TYPE_ALONE = re.compile(r"[\w.]+:")


def summary(error: str | None) -> str | None:
    """An error in a line of bounded length; None for one that says nothing."""
    return summary_line(error)[:SUMMARY_LENGTH_MAX] or None


def summary_line(error: str | None) -> str:
    """The line; empty for an error that says nothing."""
    lines = (error or "").strip().splitlines()
    if len(lines) <= 1:
        return lines[0] if lines else ""
    lines[0] = lines[0].removeprefix("| ")
    rest = _last_raised([line.removeprefix("  | ") for line in lines])
    named, group = _named(rest), ""
    for _ in range(GROUPS_MAX):
        rest = _last_raised(_first_of_group(rest))
        if not rest:
            break
        group, named = group or named, _named(rest)
    return f"{named} ({_place_in(group)})" if group else named


def _last_raised(lines: list[str]) -> list[str]:
    """Of a chain of exceptions the last one, from its heading on if it has one."""
    lines = _closed_up(lines)
    chained = [index for index, line in enumerate(lines) if line in _CHAINED]
    if chained:
        lines = lines[chained[-1] + 1 :]
    lines = [line for line in lines if line.strip()]
    if lines and _HEADING.fullmatch(lines[0]):
        return lines  # Another heading would be part of its message.
    headings = [index for index, line in enumerate(lines) if _HEADING.fullmatch(line)]
    return lines[headings[-1] :] if headings else lines


def _closed_up(lines: list[str]) -> list[str]:
    """Without the mark for the middle, and the rest of a line after it. If frames come after it,
    they are those of the last exception: its heading is taken as left out."""
    gap = next((index for index, line in enumerate(lines) if line.endswith(OMITTED_MARK)), None)
    if gap is None:
        return lines
    after = lines[gap + 2 :]
    frames = [index for index, line in enumerate(after) if line.startswith(_FRAME)]
    if frames and not any(line in _CHAINED for line in after):
        return [_PLAIN_HEADING, *after[frames[0] :]]
    return lines[:gap] + after


def _named(lines: list[str]) -> str:
    """The line that names the exception. If its message begins with a line feed, with the next."""
    if not lines:
        return ""
    at = 0
    if _HEADING.fullmatch(lines[0]):
        outside = (index for index, line in enumerate(lines) if index and not line[0].isspace())
        at = next(outside, len(lines) - 1)
    line = lines[at].strip()
    if _TYPE_ALONE.fullmatch(line) and at + 1 < len(lines):
        return f"{line} {lines[at + 1].strip()}"
    return line


def _first_of_group(lines: list[str]) -> list[str]:
    """The first error of a group, without what marks it as part of it; empty for no group."""
    starts = ((index, _FIRST_OF_GROUP.fullmatch(line)) for index, line in enumerate(lines))
    at, found = next(((index, found) for index, found in starts if found), (0, None))
    if found is None:
        return []
    indent = f"{found['indent']}  "
    first: list[str] = []
    for line in lines[at + 1 :]:
        if line.startswith(f"{indent}+--"):
            break  # Here begins the second one, or the group ends.
        first.append(line.removeprefix(f"{indent}| "))
    return first


def _place_in(group: str) -> str:
    """Which error of a group is told; how many there are makes no other sentence of it."""
    counted = _COUNTED.fullmatch(group)
    return f"1 of {counted['count']} in {counted['group']}" if counted else f"in {group}"


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
    text = summary_line(error)[:_LOOKED_AT_MAX]
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
