"""Numbers of the tree: how often a noun is written, and how much carries fields from hand to hand.

`make house` prints them. Each is a count over the source, so that two commits can be compared.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

from tests.tidy import laws

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tickwork"

FIELDS_MIN = 4
"""Fewest fields of a record that counts: two records with three fields are alike by chance."""

NEAR_EQUAL = 0.8
"""Share of the fields of two records that are the same, from which on they are one noun."""

TWIN_LINES = 0.5
"""Share of equal lines from which on two store modules are twins."""

SETTING = "first_byte_seconds"
"""A setting of endpoints; the modules that name it are those a new one touches."""

_COMMAND = re.compile(r"@\w+\.(client|database|plain)_command\(")
"""What declares a command."""

_RECORDS = ("Struct", "NamedTuple", "TypedDict", "dataclass")


def main() -> None:
    """Prints every number."""
    rows = [(what, count()) for what, count in NUMBERS.items()]
    width = max(len(what) for what, _ in rows)
    sys.stdout.write("".join(f"{what:<{width}}  {number:>8,}\n" for what, number in rows))
    if "--pairs" in sys.argv:
        sys.stdout.write("".join(f"{pair}\n" for pair in near_equal_records()))


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def code_lines() -> int:
    return sum(laws.code_lines(text_of(path)) for path in modules())


def records() -> Iterator[tuple[str, frozenset[str]]]:
    """Every class with fields, and their names."""
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and _is_record(node):
                fields = {
                    part.target.id
                    for part in node.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                }
                if fields:
                    yield f"{path.relative_to(PACKAGE)}:{node.name}", frozenset(fields)


def _is_record(node: ast.ClassDef) -> bool:
    said = [*map(ast.unparse, node.bases), *map(ast.unparse, node.decorator_list)]
    return any(kind in text for kind in _RECORDS for text in said)


def near_equal_records() -> list[str]:
    """Pairs of records whose fields are nearly the same."""
    large = [(name, fields) for name, fields in records() if len(fields) >= FIELDS_MIN]
    return [
        f"{first} = {second}"
        for (first, one), (second, other) in combinations(large, 2)
        if len(one & other) / len(one | other) >= NEAR_EQUAL
    ]


def twin_store_modules() -> list[str]:
    """Modules of one name in both stores that are mostly equal."""
    postgres, sqlite = PACKAGE / "store" / "postgres", PACKAGE / "store" / "sqlite"
    found: list[str] = []
    for path in sorted(postgres.rglob("*.py")):
        twin = sqlite / path.relative_to(postgres)
        if twin.exists() and path.name != "__init__.py":
            one, other = _lines(path), _lines(twin)
            blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
            equal = sum(block.size for block in blocks)
            if equal / min(len(one), len(other)) >= TWIN_LINES:
                found.append(str(path.relative_to(postgres)))
    return found


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in text_of(path).splitlines() if line.strip()]


def lines_per_command() -> int:
    """Lines of code of the command line for each command."""
    commands = lines = 0
    for path in modules():
        if path.is_relative_to(PACKAGE / "cli"):
            lines += laws.code_lines(text_of(path))
            commands += len(_COMMAND.findall(text_of(path)))
    return lines // max(commands, 1)


def mentions(pattern: str, folder: str = "") -> int:
    """How often the package says something."""
    found = re.compile(pattern)
    inside = [path for path in modules() if path.is_relative_to(PACKAGE / folder)]
    return sum(len(found.findall(text_of(path))) for path in inside)


def offences(law: Callable[[ast.Module], Iterator[laws.Offence]]) -> int:
    return sum(len([*law(tree_of(path))]) for path in modules())


def modules_naming(word: str) -> int:
    """How many modules say a word."""
    return sum(re.search(rf"\b{word}\b", text_of(path)) is not None for path in modules())


NUMBERS: dict[str, Callable[[], int]] = {
    "lines of code": code_lines,
    "modules": lambda: len(modules()),
    "records": lambda: len([*records()]),
    "pairs of records with nearly the same fields": lambda: len(near_equal_records()),
    "modules that a new setting of endpoints touches": lambda: modules_naming(SETTING),
    "store modules that are twins": lambda: len(twin_store_modules()),
    "store_of(context)": lambda: mentions(r"\bstore_of\("),
    "lines of code of a command": lines_per_command,
    "parameters named database in commands": lambda: mentions(
        r"\bdatabase: (str|bool|Database)", "cli"
    ),
    "mentions of is_postgres": lambda: mentions(r"\bis_postgres\b"),
    "functions with a complexity above 20": lambda: offences(laws.complex_functions),
    "classes with more than 25 methods": lambda: offences(laws.large_classes),
    "packed assignments": lambda: offences(laws.packed_assignments),
    "names that say too little": lambda: offences(laws.vague_names),
}

if __name__ == "__main__":
    main()
