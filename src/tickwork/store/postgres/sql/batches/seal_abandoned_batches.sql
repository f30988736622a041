-- Closes batches whose sender stopped filling them, with the items they have.
UPDATE tickwork_batches AS b SET total = stored
FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id)
WHERE b.tenant = given.tenant AND b.id = given.id AND b.total IS NULL
    AND b.filled_at <= coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $4)
