"""The HTTP API, with a client in this process and with a real server."""
