-- Deletes a message that is still claimed by exactly this claim. Rows that are not returned were not claimed.
DELETE FROM tickwork_messages WHERE place IN (
    SELECT m.place
    FROM (
        SELECT column1 AS tenant, column2 AS id, column3 AS claim, column4 AS holder
        FROM (VALUES /*each*/ (?, ?, ?, ?) /*each*/)
    ) AS held
    CROSS JOIN tickwork_messages AS m ON m.tenant = held.tenant AND m.id = held.id
    WHERE m.claim = held.claim AND m.holder = held.holder AND m.state = 'claimed'
)
RETURNING /*removed*/
