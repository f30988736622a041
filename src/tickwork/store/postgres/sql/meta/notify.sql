-- Notifies listeners that queues have messages.
SELECT pg_notify('tickwork', id::text) FROM unnest($1::uuid[]) AS queue (id)
