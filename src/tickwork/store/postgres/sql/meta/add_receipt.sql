-- Notes that a transaction was committed, for who looks afterwards.
INSERT INTO tickwork_receipts (id, accepted_at) VALUES ($1, coalesce($2::timestamptz, clock_timestamp()))
