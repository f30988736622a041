-- The open dead letters of a queue grouped by cause, the largest group first. They are counted by tenant
-- first, in the order of the index. (Every text sorts before an empty blob.)
SELECT reason, fingerprint, type, sum(letters) AS dead_letters, min(first) AS first_failed_at,
    max(last) AS last_failed_at
FROM (
    SELECT reason, fingerprint, type, count(*) AS letters, min(failed_at) AS first, max(failed_at) AS last
    FROM tickwork_dead_letters INDEXED BY tickwork_dead_letters_group
    WHERE queue_id = ?1 AND resolution IS NULL
        AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
    GROUP BY tenant, reason, fingerprint, type
)
GROUP BY reason, fingerprint, type
ORDER BY sum(letters) DESC, reason, fingerprint, type
LIMIT ?3
