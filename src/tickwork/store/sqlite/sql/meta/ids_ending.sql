-- The ids of one kind that end with these hexadecimal digits, for one tenant or all. Reads only an index
-- of the table, from its start.
SELECT DISTINCT id FROM (
    SELECT tenant, id FROM tickwork_messages WHERE ?2 = 'message'
    UNION ALL
    SELECT tenant, id FROM tickwork_dead_letters WHERE ?2 = 'dead letter'
    UNION ALL
    SELECT tenant, message_id AS id FROM tickwork_dead_letters WHERE ?2 = 'dead message'
    UNION ALL
    SELECT tenant, id FROM tickwork_batches WHERE ?2 = 'batch'
    UNION ALL
    SELECT tenant, id FROM tickwork_schedules WHERE ?2 = 'schedule'
    UNION ALL
    SELECT tenant, id FROM tickwork_deliveries WHERE ?2 = 'delivery'
    UNION ALL
    SELECT tenant, id FROM tickwork_operations WHERE ?2 = 'operation'
)
WHERE (?1 IS NULL OR tenant = ?1) AND substr(hex(id), -length(?3)) = upper(?3)
ORDER BY id
LIMIT ?4
