"""Rate limits, concurrency and statistics of queues."""
