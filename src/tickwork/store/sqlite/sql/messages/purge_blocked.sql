-- Deletes some of the blocked messages of a queue: of one tenant, or of all for the system. (Every text sorts
-- before an empty blob.)
DELETE FROM tickwork_messages WHERE place IN (
    SELECT place FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'held'
        AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'') AND sent_at <= ?3
    LIMIT ?4
)
RETURNING /*removed*/
