"""Schedules: the model, the next slot, planning, changes, and what became of a slot."""
