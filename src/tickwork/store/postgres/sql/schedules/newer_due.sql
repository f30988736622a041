-- For each slot: how many later slots of its schedule are due or were processed, up to 1,000 of each, and how
-- many of these were missed: claimed too late, or not yet claimed and too late by now. A processed slot ends
-- after its nominal time, so only the days since then are read.
SELECT newer.due, newer.missed
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment,
    unnest($2::text[], $3::uuid[], $4::timestamptz[])
        WITH ORDINALITY AS given (tenant, schedule_id, slot, number)
CROSS JOIN LATERAL (
    SELECT count(*) AS due, count(*) FILTER (WHERE is_missed) AS missed
    FROM (
        (
            SELECT m.slot, m.catch_up OR (m.state <> 'claimed' AND /*on_time_until*/ < moment.now) IS TRUE AS is_missed
            FROM tickwork_messages AS m
            WHERE m.tenant = given.tenant AND m.schedule_id = given.schedule_id
                AND m.schedule_id IS NOT NULL AND m.slot > given.slot AND m.run = 0
                AND coalesce(m.due_at, m.visible_at) <= moment.now
            LIMIT /*later_slots_max*/
        )
        UNION
        (
            SELECT f.slot, f.catch_up
            FROM tickwork_firings AS f
            WHERE f.tenant = given.tenant AND f.schedule_id = given.schedule_id
                AND f.slot > given.slot AND f.run = 0 AND f.finished_at > given.slot
                AND f.status IN (/*handled*/)
            LIMIT /*later_slots_max*/
        )
    ) AS found
) AS newer
ORDER BY given.number
