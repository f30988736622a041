"""Apps and handlers that the worker tests import or run as separate processes."""
