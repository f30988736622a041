-- Writes a row, to know the transaction that has written it: savepoints have ids of their own, which nothing else tells.
INSERT INTO tickwork_receipts (id, accepted_at) VALUES ($1, coalesce($2::timestamptz, clock_timestamp()))
RETURNING xmin::text::bigint AS written_by
