"""Messages: send, claim, settle, keys, dead letters, batches and subscriptions."""
