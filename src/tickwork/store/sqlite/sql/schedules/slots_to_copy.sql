-- New messages of slots, with the times at which they expire.
SELECT m.place, /*columns*/, m.expires_at
FROM (SELECT column1 AS tenant, column2 AS id FROM (VALUES /*each*/ (?, ?) /*each*/)) AS given
CROSS JOIN tickwork_messages AS m ON m.tenant = given.tenant AND m.id = given.id
