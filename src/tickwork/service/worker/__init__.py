"""The worker: claims messages, runs handlers, settles their results."""
