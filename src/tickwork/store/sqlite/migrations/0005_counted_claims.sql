-- Claims are counted only where there is a cap.

-- Every claim, and every end of one, would otherwise write into an index that nobody reads. What is
-- not counted by tenant is found by its holder.
ALTER TABLE tickwork_messages ADD COLUMN is_counted INTEGER NOT NULL DEFAULT 0;
DROP INDEX tickwork_messages_claimed;
CREATE INDEX tickwork_messages_counted ON tickwork_messages (queue_id, tenant)
    WHERE state = 'claimed' AND is_counted = 1;
UPDATE tickwork_messages SET is_counted = 1 WHERE state = 'claimed';
