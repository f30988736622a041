-- Who gets a delivery: what waits for one receiver does not stand before what others get. Empty: several get it, or it
-- is not known who.
ALTER TABLE tickwork_messages ADD COLUMN receiver TEXT;
ALTER TABLE tickwork_schedules ADD COLUMN receiver TEXT;
ALTER TABLE tickwork_dead_letters ADD COLUMN receiver TEXT;
UPDATE tickwork_messages SET receiver = ''
    WHERE queue_id IN (SELECT id FROM tickwork_queues WHERE name IN ('tickwork.deliveries', 'tickwork.endpoints'));
UPDATE tickwork_schedules SET receiver = ''
    WHERE queue_id IN (SELECT id FROM tickwork_queues WHERE name = 'tickwork.deliveries');
UPDATE tickwork_dead_letters SET receiver = ''
    WHERE queue_id IN (SELECT id FROM tickwork_queues WHERE name IN ('tickwork.deliveries', 'tickwork.endpoints'));
-- What a claim of deliveries takes: of each receiver as much as its limits let go.
CREATE INDEX tickwork_messages_receiver
    ON tickwork_messages (queue_id, tenant, receiver, priority DESC, visible_at, id, state)
    WHERE state = 'ready' AND receiver IS NOT NULL;
