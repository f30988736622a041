"""Builds the documentation site: `make docs`.

The pages are those of the repository: README, docs, examples. `reference` writes the pages that
describe the code, from the code; they are made at each build and not committed, so that they are
never out of date.
"""
