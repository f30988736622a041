"""How one statement is run: a module per driver."""
