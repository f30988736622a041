"""The app object and what hangs on it: signatures and docstrings for people, no decisions."""
