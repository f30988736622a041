"""All tests in several processes: none is left out, and none runs twice."""

import pytest

from tests.__main__ import ROOT, parts, shared_out


@pytest.mark.parametrize("processes", [1, 2, 3, 100])
def test_every_part_is_given_to_one_process(processes: int) -> None:
    shares = shared_out(parts(), processes)
    assert sorted(name for share in shares for name in share) == sorted(parts())
    assert len(shares) <= processes


def test_every_file_with_tests_is_in_a_part() -> None:
    for path in ROOT.rglob("test_*.py"):
        within = [name for name in parts() if path.is_relative_to(ROOT / name)]
        assert len(within) == 1, path


def test_the_heavy_ones_do_not_end_up_with_one_process() -> None:
    weights = {"a": 10, "b": 10, "c": 10, "long": 30, "longer": 40}
    heavy = [sum(weights[name] for name in share) for share in shared_out(weights, 2)]
    assert sorted(heavy) == [50, 50]
