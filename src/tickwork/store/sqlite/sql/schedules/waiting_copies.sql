-- The rowids of copies that no worker has claimed, of those of the given messages that exist.
SELECT m.place
FROM (SELECT column1 AS tenant, column2 AS id FROM (VALUES /*each*/ (?, ?) /*each*/)) AS given
CROSS JOIN tickwork_messages AS m ON m.tenant = given.tenant AND m.id = given.id
WHERE m.claim = 0 AND m.state <> 'claimed'
