-- All recorded events, in order.
SELECT seq, what, schedule_id, slot, run, message_id, shard, token, node, former
FROM tickwork_history
ORDER BY seq
