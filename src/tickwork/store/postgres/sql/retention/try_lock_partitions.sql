-- Whether nobody else makes or drops partitions now; the lock goes with the transaction. Whoever waits for
-- a table longer than a moment gives up: others wait behind him.
SELECT pg_try_advisory_xact_lock($1), set_config('lock_timeout', '200ms', true)
