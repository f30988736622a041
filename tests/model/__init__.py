"""The in-memory model of the store's contract: what the real stores are compared with."""
