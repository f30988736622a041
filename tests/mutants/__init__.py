"""Proves the checkers: with one safeguard switched off they report a violation, otherwise none.

`cluster.py` is a small cluster in virtual time on a real database: real leaders, stepped by the
test. `scenarios.py` has the scenarios, `mutations.py` the safeguards that are switched off;
`test_mutants.py` combines them.
"""
