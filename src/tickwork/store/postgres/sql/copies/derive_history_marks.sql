-- Stores what the records of each chunk that was copied can be found by.
UPDATE tickwork_message_history AS c SET marks = (
    SELECT array_agg(DISTINCT hashtext(found.mark))
    FROM unnest(c.records) AS r
    CROSS JOIN LATERAL (
        VALUES (left(r.id::text, /*mark_characters*/)), ('c:' || r.correlation_id), ('e:' || r.event_id), ('k:' || r.key)
    ) AS found (mark)
    WHERE found.mark IS NOT NULL
)
