-- Whether no other transaction rolls up. Two would overwrite each other's rows.
SELECT pg_try_advisory_xact_lock(hashtext('tickwork_performance'), 'tickwork_performance'::regclass::oid::integer) AS is_free
