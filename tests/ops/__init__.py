"""The verbs in ops: what they accept, refuse and return."""
