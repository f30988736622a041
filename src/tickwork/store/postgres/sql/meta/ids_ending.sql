-- The ids of one kind that end with these hexadecimal digits, for one tenant or all. Reads only an index
-- of the table, from its start.
SELECT DISTINCT found.id FROM (
    SELECT tenant, id FROM tickwork_messages WHERE $2::text = 'message'
    UNION ALL
    SELECT tenant, id FROM tickwork_dead_letters WHERE $2 = 'dead letter'
    UNION ALL
    SELECT tenant, message_id AS id FROM tickwork_dead_letters WHERE $2 = 'dead message'
    UNION ALL
    SELECT tenant, id FROM tickwork_batches WHERE $2 = 'batch'
    UNION ALL
    SELECT tenant, id FROM tickwork_schedules WHERE $2 = 'schedule'
    UNION ALL
    SELECT tenant, id FROM tickwork_deliveries WHERE $2 = 'delivery'
    UNION ALL
    SELECT tenant, id FROM tickwork_operations WHERE $2 = 'operation'
) AS found
WHERE ($1::text IS NULL OR found.tenant = $1)
    AND right(replace(found.id::text, '-', ''), length($3::text)) = $3
ORDER BY found.id
LIMIT $4
