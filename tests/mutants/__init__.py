"""The checkers, proven: with one safeguard switched off they find what is wrong, without not.

`bed.py` is a small cluster in virtual time, on a real database: the real leaders, stepped by hand.
`scenarios.py` are the stories that are told to it, `twists.py` the safeguards that are switched
off; `test_mutants.py` puts both together.
"""
