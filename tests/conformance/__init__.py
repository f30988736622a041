"""The store contract as tests: every test runs on every store and on the in-memory model.

A store must pass all of this folder. `acts.py` has helpers for short tests; `ledger.py` has what
differs between kinds of stores (a caller's own table).
"""
