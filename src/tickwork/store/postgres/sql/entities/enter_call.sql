-- Stores direct calls of living nodes: claimed by the node if the key is free, else blocked. Stores none for a
-- key that has too many messages.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
node AS MATERIALIZED (
    -- Locked until the end, so that the node is not declared dead between this check and its call.
    SELECT id FROM tickwork_nodes
    WHERE id = ANY ($2::uuid[]) AND expires_at > (SELECT now FROM moment)
    ORDER BY id
    FOR KEY SHARE
),
new AS MATERIALIZED (
    SELECT
        given.*,
        row_number() OVER same_key AS nth,
        count(*) OVER (PARTITION BY tenant, queue_id, key) AS messages
    FROM unnest(
        $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::bytea[], $8::text[], $9::text[],
        $10::smallint[]
    ) WITH ORDINALITY AS given (
        caller, tenant, queue_id, key, id, body, correlation_id, causation_id, hops, number
    )
    WHERE caller IN (SELECT id FROM node)
    WINDOW same_key AS (PARTITION BY tenant, queue_id, key ORDER BY number)
),
reserved AS (
    INSERT INTO tickwork_keys AS known (tenant, queue_id, key, last_place)
    SELECT tenant, queue_id, key, messages FROM new WHERE nth = 1
    ORDER BY tenant, queue_id, key
    ON CONFLICT (tenant, queue_id, key)
        DO UPDATE SET last_place = known.last_place + excluded.last_place
    RETURNING tenant, queue_id, key, last_place
),
positioned AS (
    SELECT new.*, reserved.last_place - new.messages + new.nth AS place
    FROM new JOIN reserved USING (tenant, queue_id, key)
),
stored AS (
    INSERT INTO tickwork_messages (
        tenant, queue_id, key, id, body, correlation_id, causation_id, hops, caller, place, sent_at, visible_at,
        state, claim, holder, claimed_at
    )
    SELECT
        new.tenant, new.queue_id, new.key, new.id, new.body, new.correlation_id, new.causation_id, new.hops,
        new.caller, new.place, now, now, CASE WHEN new.place = 1 THEN 'claimed' ELSE 'held' END,
        (new.place = 1)::integer, CASE WHEN new.place = 1 THEN new.caller END,
        CASE WHEN new.place = 1 THEN now END
    FROM positioned AS new, moment
    WHERE new.place = 1 OR new.nth + (
        SELECT count(*) FROM (
            SELECT FROM tickwork_messages AS m
            WHERE m.queue_id = new.queue_id AND m.tenant = new.tenant AND m.key = new.key
            LIMIT $11
        ) AS waiting
    ) <= $11
    RETURNING tenant, id, state
)
SELECT new.number, moment.now, stored.state
FROM new CROSS JOIN moment LEFT JOIN stored USING (tenant, id)
