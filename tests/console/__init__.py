"""The console: its sessions, its build, and its pages in a real browser."""
