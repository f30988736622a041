"""Summarizes an error in one line, and groups errors by a fingerprint.

| error | summary |
|---|---|
| a text | its first line |
| a traceback | the line that names the exception, with the first line of its message |
| a traceback with causes | that line of the exception that was raised last |
| an exception group | that line of its first error, and the name of the group |

The last line of an error is often a help text, a link or a frame, so it is not used.

A fingerprint replaces what differs between failures (numbers, ids, quoted values) by a placeholder,
so that ten thousand timeouts are one group. Ids and numbers have the same placeholder, because an
id may consist of digits. Status codes stay: a mailbox that does not exist (550 5.1.1) is another
failure than one that is full (552 5.2.2).
"""

from __future__ import annotations

import re

SUMMARY_LENGTH_MAX = 500

OMITTED_MARK = "the middle is left out …"
"""The end of the line that replaces the middle of an error that was too long."""

GROUPS_MAX = 10
"""Maximum nesting of exception groups that is read; Python prints no more."""

_PLAIN_HEADING = "Traceback (most recent call last):"
_HEADING = re.compile(
    # Errors stored by older versions have no leading blanks.
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
    """The summary of an error, with a maximum length; None for an empty error."""
    return summary_line(error)[:SUMMARY_LENGTH_MAX] or None


def summary_line(error: str | None) -> str:
    """The summary of an error; empty for an empty error."""
    lines = (error or "").strip().splitlines()
    if len(lines) <= 1:
        return lines[0] if lines else ""
    lines[0] = lines[0].removeprefix("| ")
    rest = _last_raised([line.removeprefix("  | ") for line in lines])
    named, group = _exception_line(rest), ""
    for _ in range(GROUPS_MAX):
        rest = _last_raised(_first_of_group(rest))
        if not rest:
            break
        group, named = group or named, _exception_line(rest)
    return f"{named} ({_position_in(group)})" if group else named


def _last_raised(lines: list[str]) -> list[str]:
    """The last exception of a chain, from its heading on if it has one."""
    lines = _without_mark(lines)
    chained = [index for index, line in enumerate(lines) if line in _CHAINED]
    if chained:
        lines = lines[chained[-1] + 1 :]
    lines = [line for line in lines if line.strip()]
    if lines and _HEADING.fullmatch(lines[0]):
        return lines  # Any other heading is part of its message.
    headings = [index for index, line in enumerate(lines) if _HEADING.fullmatch(line)]
    return lines[headings[-1] :] if headings else lines


def _without_mark(lines: list[str]) -> list[str]:
    """The lines without the mark for the omitted middle and the partial line after it. Frames after
    the mark belong to the last exception, whose heading was omitted."""
    gap = next((index for index, line in enumerate(lines) if line.endswith(OMITTED_MARK)), None)
    if gap is None:
        return lines
    after = lines[gap + 2 :]
    frames = [index for index, line in enumerate(after) if line.startswith(_FRAME)]
    if frames and not any(line in _CHAINED for line in after):
        return [_PLAIN_HEADING, *after[frames[0] :]]
    return lines[:gap] + after


def _exception_line(lines: list[str]) -> str:
    """The line that names the exception, with the next one if its message starts on that."""
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
    """The first error of a group, without the group's indentation; empty if there is no group."""
    starts = ((index, _FIRST_OF_GROUP.fullmatch(line)) for index, line in enumerate(lines))
    at, found = next(((index, found) for index, found in starts if found), (0, None))
    if found is None:
        return []
    indent = f"{found['indent']}  "
    first: list[str] = []
    for line in lines[at + 1 :]:
        if line.startswith(f"{indent}+--"):
            break  # The second error starts here, or the group ends.
        first.append(line.removeprefix(f"{indent}| "))
    return first


def _position_in(group: str) -> str:
    """The position of the first error in its group."""
    counted = _COUNTED.fullmatch(group)
    return f"1 of {counted['count']} in {counted['group']}" if counted else f"in {group}"


FINGERPRINT_LENGTH_MAX = 200
_INPUT_LENGTH_MAX = 2_000

_QUOTED = re.compile(
    "|".join(
        # A quote between letters is an apostrophe. A text that was cut may lack its closing quote.
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
_STATUS = re.compile(
    # At the start, after a colon or bracket, or after a word for it; not a part of a longer number.
    r"(?:^|(?<!\d)[:(\[]"
    r"|\b(?:status|code|answered|responded|returned|http|smtp)\b(?: with| code| status)?)"
    # An enhanced code of mail may follow: 550 5.1.1.
    r"[ =:]{0,2}(?P<code>[1-5]\d\d(?:[ -][245]\.\d{1,3}\.\d{1,3})?)\b"
    r"(?![.,:]\d)(?! ?(?:ms|s|%|bytes|seconds)\b)",
    re.IGNORECASE,
)
_HIDE_DIGITS = {ord("0") + digit: 0xE000 + digit for digit in range(10)}
_SHOW_DIGITS = {hidden: digit for digit, hidden in _HIDE_DIGITS.items()}
"""Private characters that stand for the digits of a status code while numbers are replaced."""

_SIGNED = re.compile(r"(?<!\w)[-+]<n>")

_HEX_LENGTH_MIN = 12
"""Minimum length of a word of the letters a to f that counts as hex: no real word is as long."""

_ID_LENGTH_MIN = 16
"""Minimum length of an id of letters and digits, such as a ULID or a cloud resource id."""


def fingerprint(error: str | None) -> str:
    """The fingerprint of an error; empty for an empty error."""
    text = summary_line(error)[:_INPUT_LENGTH_MAX]
    # Each step first checks whether it is needed: most errors are plain words.
    if "'" in text or '"' in text or "`" in text:
        text = _QUOTED.sub("<text>", text)
    if text.count("-") >= 4:
        text = _UUID.sub("<n>", text)
    if "0x" in text or "0X" in text:
        text = _ADDRESS.sub("<n>", text)
    text = _STATUS.sub(_hide_code, text)
    text = _NUMBER.sub("<n>", _LONG_WORD.sub(_replace_id, text)).translate(_SHOW_DIGITS)
    if "-<n>" in text or "+<n>" in text:
        text = _SIGNED.sub("<n>", text)
    return " ".join(text.split())[:FINGERPRINT_LENGTH_MAX]


def _hide_code(found: re.Match[str]) -> str:
    """A status code that the number pattern does not see."""
    code: str = found["code"]
    return found[0].removesuffix(code) + code.translate(_HIDE_DIGITS)


def _replace_id(found: re.Match[str]) -> str:
    """A long word, or the placeholder if it is an id. Digits are left for the number pattern."""
    word = found[0]
    if _PART_OF_NUMBER.fullmatch(word):
        return word
    if word.isalpha():
        is_id = len(word) >= _HEX_LENGTH_MIN and _HEX.fullmatch(word) is not None
    else:
        is_id = len(word) >= _ID_LENGTH_MIN or _HEX.fullmatch(word) is not None
    return "<n>" if is_id else word
