-- Notes how a run diverges from its record ($7), or with NULL that it does not, if its message is still claimed by
-- exactly this claim. Returns its uid.
WITH held AS MATERIALIZED (
    SELECT 1 FROM tickwork_messages
    WHERE tenant = $2 AND id = $3 AND (claim, holder) IS NOT DISTINCT FROM ($4, $5::uuid)
    FOR SHARE
)
UPDATE tickwork_runs SET
    divergence = $7,
    diverged_at = CASE WHEN $7::text IS NOT NULL
        THEN coalesce(diverged_at, $1::timestamptz, clock_timestamp()) END
FROM held
WHERE uid = $6 AND message_id = $3 AND status = 'running'
RETURNING uid
