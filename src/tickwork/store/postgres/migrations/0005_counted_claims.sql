-- Claims are counted only where there is a cap.

-- Every claim would otherwise write into an index whose entries are all alike, which costs it more
-- than all the others. What is not counted by tenant is found by its holder.
ALTER TABLE tickwork_messages ADD COLUMN is_counted boolean NOT NULL DEFAULT false;
DROP INDEX tickwork_messages_claimed;
CREATE INDEX tickwork_messages_counted ON tickwork_messages (queue_id, tenant)
    WHERE state = 'claimed' AND is_counted;
UPDATE tickwork_messages SET is_counted = true
WHERE state = 'claimed' AND queue_id IN (SELECT id FROM tickwork_queues WHERE is_governed);
