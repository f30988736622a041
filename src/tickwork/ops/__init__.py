"""The verbs: every operation that Python, HTTP and the command line offer, each one function.

All callers use the same functions, so they accept the same input, raise the same errors and
return the same values. A verb takes a store, a scope and plain fields. It returns a value, or
raises `InvalidInput` with every fault by field. Only `ops` and `service` call a store.
"""

from tickwork.ops.schedules.preview import Explanation, explain_schedule, preview_schedule

__all__ = ["Explanation", "explain_schedule", "preview_schedule"]
