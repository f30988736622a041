-- Whether the node of a direct call has claimed it.
SELECT id, state = 'claimed' AS is_claimed FROM tickwork_messages WHERE tenant = ?1 AND id = ?2 AND caller IS NOT NULL
