-- Some batches that are not completed, after a given one, and whether their sender stopped filling them.
SELECT tenant, id,
    total IS NULL
        AND filled_at <= coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $4)
        AS is_left
FROM tickwork_batches
WHERE completed_at IS NULL AND (tenant, id) > ($2::text, $3::uuid)
ORDER BY tenant, id
LIMIT $5
