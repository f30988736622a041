-- Deletes the states of entities.
DELETE FROM tickwork_entities AS e
USING (
    SELECT found.at
    FROM unnest($1::text[], $2::uuid[]) AS gone (tenant, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_entities WHERE tenant = gone.tenant AND id = gone.id LIMIT 1
    ) AS found
) AS gone
WHERE e.ctid = gone.at
