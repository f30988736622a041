-- Stores published events, each once.
INSERT INTO tickwork_published (tenant, published_at, /*published*/)
SELECT $1, $2, new.*
FROM unnest(
    $3::uuid[], $4::smallint[], $5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[]
) AS new (/*published*/)
ORDER BY new.id -- In a fixed order, so that two publishers of the same events do not deadlock.
ON CONFLICT DO NOTHING
