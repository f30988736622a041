"""The command line, in process for breadth and as a real process for its edges."""
