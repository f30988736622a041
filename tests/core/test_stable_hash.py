"""The hash is fixed: these numbers were computed once and must never change."""

from __future__ import annotations

import pytest

from tickwork.core.stable_hash import stable_hash


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 16476032584258269876),
        ("sch_1", 155047271607109258),
        ("Zeitplan für alle", 14722678699586392131),
    ],
)
def test_the_hash_never_changes(text: str, number: int) -> None:
    assert stable_hash(text) == number
