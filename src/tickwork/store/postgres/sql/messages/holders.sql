-- Who has claimed messages, from a given holder on, in order. Skips from one to the next.
WITH RECURSIVE claims AS (
    (
        SELECT holder FROM tickwork_messages WHERE state = 'claimed' AND holder >= $1
        ORDER BY holder LIMIT 1
    )
    UNION ALL
    SELECT following.holder
    FROM claims CROSS JOIN LATERAL (
        SELECT m.holder FROM tickwork_messages AS m WHERE m.state = 'claimed' AND m.holder > claims.holder
        ORDER BY m.holder LIMIT 1
    ) AS following
)
SELECT holder FROM claims
