-- Deletes what is not claimed: of one tenant, or for the system of all.
WITH gone AS (
    DELETE FROM tickwork_messages
    WHERE queue_id = $1 AND state <> 'claimed' AND ($2::text IS NULL OR tenant = $2)
    RETURNING 1
)
SELECT count(*) FROM gone
