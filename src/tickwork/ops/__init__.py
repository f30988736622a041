"""The use-cases: what a caller can ask for, whichever way they ask.

HTTP, the command line and Python call the same function with the same fields, so that they
accept the same, refuse the same with the same words, and answer the same. A use-case takes
plain fields and the present time, and either answers with a value or raises `InvalidInput`
with every fault by field.
"""

from tickwork.ops.schedules.preview import Explanation, explain_schedule, preview_schedule

__all__ = ["Explanation", "explain_schedule", "preview_schedule"]
