"""The HTTP interface, through a client in process and through a real server."""
