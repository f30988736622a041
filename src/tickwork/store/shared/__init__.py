"""Code that both stores use: no SQL dialect, no driver."""
