"""The command line, in this process for most cases and as a real process for exit codes."""
