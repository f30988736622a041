-- Deletes receipts past their retention. Ids sort by creation time, so the oldest are deleted first.
WITH first AS MATERIALIZED (
    SELECT ctid AS at, accepted_at FROM tickwork_receipts
    ORDER BY id
    LIMIT $2
)
DELETE FROM tickwork_receipts
WHERE ctid = ANY (ARRAY (SELECT at FROM first WHERE accepted_at <= $1))
