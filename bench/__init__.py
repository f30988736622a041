"""Measurements with goals: `make bench`, or `python -m bench --only AREA`.

A page of the suite is a module `bench/<area>_bench.py` whose functions yield results; the
harness finds, runs and judges them. Every ratio is to something measured in the same run.
"""

QUEUE = "bench"
"""The queue that everything goes through."""
