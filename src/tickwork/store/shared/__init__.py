"""Code that both stores use and that speaks no dialect."""
