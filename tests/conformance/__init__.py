"""The contract as laws. Every test runs on every store, and on the model that stands for them.

A store without a green run of this folder does not exist. `acts.py` has the words the tests are
written in; what is told apart by kind (a caller's own table) is in `ledger.py`.
"""
