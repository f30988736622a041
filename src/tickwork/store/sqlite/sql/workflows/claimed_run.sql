-- The signals of a running run whose message is still claimed by exactly this claim, and the lost claims of the
-- message.
SELECT r.signals, m.lost FROM tickwork_messages AS m, tickwork_runs AS r
WHERE m.tenant = ?1 AND m.id = ?2 AND m.claim = ?3 AND m.holder = ?4 AND m.state = 'claimed'
    AND r.uid = ?5 AND r.message_id = ?2 AND r.status = 'running'
