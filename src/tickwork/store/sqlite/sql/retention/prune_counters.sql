-- Deletes counters past their retention, the oldest first.
DELETE FROM tickwork_tallies WHERE (queue_id, minute, tenant, passing, type, source) IN (
    SELECT queue_id, minute, tenant, passing, type, source FROM tickwork_tallies
    WHERE minute <= ?1
    ORDER BY minute
    LIMIT ?2
)
