-- Ends runs whose messages were acked in this transaction, each by a valid claim.
UPDATE tickwork_runs AS r SET
    status = ended.status, result = ended.result, error = ended.error,
    failed_step = ended.failed_step, finished_at = coalesce($1::timestamptz, clock_timestamp())
FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::text[])
    AS ended (uid, message_id, status, result, error, failed_step)
-- The array keeps a plan that was made while the table was empty from reading all of it.
WHERE r.uid = ANY ($2::uuid[]) AND r.uid = ended.uid AND r.message_id = ended.message_id AND r.status = 'running'
