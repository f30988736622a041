"""The worker: what becomes of messages, wherever and however their handlers end."""
