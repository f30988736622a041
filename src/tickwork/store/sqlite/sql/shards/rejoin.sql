-- Makes a node whose lease has not expired a scheduler.
UPDATE tickwork_nodes
SET roles = (
    SELECT json_group_array(value)
    FROM (
        SELECT value FROM json_each(roles) WHERE value <> 'scheduler'
        UNION ALL SELECT 'scheduler'
    )
)
WHERE id = ?1 AND expires_at > ?2
