"""HTTP routes, a file per noun."""
