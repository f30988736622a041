-- Who has claimed messages, from a given holder on, in order. Skips from one to the next.
WITH RECURSIVE claims (holder) AS (
    SELECT (
        SELECT holder FROM tickwork_messages INDEXED BY tickwork_messages_holder
        WHERE state = 'claimed' AND holder >= ?1
        ORDER BY holder LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT m.holder FROM tickwork_messages AS m INDEXED BY tickwork_messages_holder
        WHERE m.state = 'claimed' AND m.holder > claims.holder
        ORDER BY m.holder LIMIT 1
    )
    FROM claims WHERE claims.holder IS NOT NULL
)
SELECT holder FROM claims WHERE holder IS NOT NULL
