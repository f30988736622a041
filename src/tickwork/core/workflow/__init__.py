"""Durable workflows, the pure part: runs, recorded steps, events, and what verbs do to a run."""
