-- What became of the transactions that wrote rows, by the 32 bits of their ids that rows have: of those inside savepoints,
-- too. Ids are counted on without end; one that seems to be newer than all that have ended is of an open transaction. Of
-- those that are committed it notifies listeners of the queues that have messages.
WITH became AS MATERIALIZED (
    SELECT written_by,
        CASE WHEN age BETWEEN 1 AND 2147483647 THEN pg_xact_status((newest - age)::text::xid8)
        ELSE 'in progress' END AS status
    FROM (
        SELECT written_by, newest, (newest - written_by) & 4294967295 AS age
        FROM unnest($1::bigint[]) AS asked (written_by),
            CAST(pg_snapshot_xmax(pg_current_snapshot())::text AS bigint) AS now (newest)
    ) AS asked
),
told AS MATERIALIZED (
    SELECT pg_notify('tickwork', queue_id::text) FROM (
        SELECT DISTINCT queue_id FROM unnest($2::bigint[], $3::uuid[]) AS waiting (written_by, queue_id)
        JOIN became USING (written_by) WHERE status = 'committed'
    ) AS committed
)
SELECT written_by, status, (SELECT count(*) FROM told) AS told FROM became
