"""The app object and its attributes: signatures and docstrings for people, no decisions."""
