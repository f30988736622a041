"""How results are shown and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.harness import Result

RESULTS = Path(__file__).with_name("results.json")

_HEADINGS = ("name", "value", "unit", "reference", "ratio", "goal", "")


def table(results: Sequence[Result]) -> str:
    """The results as aligned columns, numbers to the right."""
    rows = [_HEADINGS, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    numbers = {_HEADINGS.index(name) for name in ("value", "reference", "ratio")}
    lines = [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def verdict(results: Sequence[Result]) -> str:
    """One sentence: whether every goal was met, and which were not."""
    missed = [result.name for result in results if not result.ok]
    goals = sum(result.goal is not None for result in results)
    if missed:
        return f"{len(missed)} of {goals} goals missed: {', '.join(missed)}"
    return f"all {goals} goals met"


def save(results: Sequence[Result]) -> None:
    """Writes bench/results.json: this run's results and nothing older."""
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        _number(result.value),
        result.unit,
        _number(result.reference),
        _number(result.ratio),
        result.goal or "",
        "" if result.goal is None else "ok" if result.ok else "MISSED",
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
