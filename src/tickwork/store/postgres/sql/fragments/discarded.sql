-- The messages of the query `gone` as ended ones, for the reason in the placeholder.
ended AS (
    SELECT gone.*, coalesce($1::timestamptz, statement_timestamp()) AS ended_at, 'discarded' AS outcome,
        /*start*/::text AS reason, attempts AS attempts_used, NULL::timestamptz AS started_at
    FROM gone
)
