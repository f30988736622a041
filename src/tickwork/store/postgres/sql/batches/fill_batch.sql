-- Locks a batch and sets its number of items to `$4`, if it is still being filled or has as many already;
-- returns how many it had, and whether any have ended.
WITH filling AS MATERIALIZED (
    SELECT stored FROM tickwork_batches
    WHERE tenant = $2 AND id = $3 AND (total IS NULL OR stored >= $4)
    FOR UPDATE
)
UPDATE tickwork_batches AS b
SET stored = greatest(filling.stored, $4), filled_at = coalesce($1::timestamptz, clock_timestamp())
FROM filling
WHERE b.tenant = $2 AND b.id = $3
RETURNING filling.stored,
    EXISTS (SELECT FROM tickwork_batch_counts WHERE tenant = $2 AND batch_id = $3) AS has_ended
