"""Programs for tests to start, freeze and kill; each takes a store's URL first."""
