-- Deletes direct calls whose node is dead.
DELETE FROM tickwork_messages WHERE place IN (
    SELECT m.place FROM tickwork_messages AS m
    WHERE m.caller IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM tickwork_nodes AS n WHERE n.id = m.caller AND n.expires_at > ?1
    )
    LIMIT ?2
)
RETURNING /*removed*/
