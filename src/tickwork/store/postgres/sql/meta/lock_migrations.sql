-- One migration at a time; released with the transaction.
SELECT pg_advisory_xact_lock($1)
