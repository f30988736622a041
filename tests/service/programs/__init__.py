"""Apps and handlers that the tests of the worker import, or run as processes of their own."""
