"""A first look: a schedule that ticks, and a queue to feed from the command line."""
