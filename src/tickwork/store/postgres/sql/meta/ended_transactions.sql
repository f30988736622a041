-- What became of the transactions that wrote rows, by the 32 bits of their ids that rows have: of those inside savepoints,
-- too. Ids are counted on without end; one that seems to be newer than all that have ended is of an open transaction.
SELECT written_by,
    CASE WHEN age BETWEEN 1 AND 2147483647 THEN pg_xact_status((newest - age)::text::xid8) ELSE 'in progress' END AS status
FROM (
    SELECT written_by, newest, (newest - written_by) & 4294967295 AS age
    FROM unnest($1::bigint[]) AS asked (written_by),
        CAST(pg_snapshot_xmax(pg_current_snapshot())::text AS bigint) AS now (newest)
) AS asked
