-- Tries to get the advisory lock for partition changes, until the transaction ends. Sets a short lock
-- timeout, because other transactions queue behind one that waits for a table lock.
SELECT pg_try_advisory_xact_lock($1), set_config('lock_timeout', '200ms', true)
