"""The worker: claims messages, runs handlers, settles what they return."""
