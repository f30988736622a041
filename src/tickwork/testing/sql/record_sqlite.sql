-- Records, in one order and in the transaction that does it: every message stored for a slot, with the token of
-- its shard at that moment; every message withdrawn before a claim; every transfer of a shard; every renewal of a
-- lease. A slot that is moved with the clock is recorded with its new time.
CREATE TABLE IF NOT EXISTS tickwork_history (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    what TEXT NOT NULL,
    schedule_id BLOB,
    slot INTEGER,
    run INTEGER,
    message_id BLOB,
    shard INTEGER,
    token INTEGER,
    node BLOB,
    former BLOB
);

CREATE TRIGGER IF NOT EXISTS tickwork_history_stored AFTER INSERT ON tickwork_messages
WHEN NEW.schedule_id IS NOT NULL
BEGIN
    INSERT INTO tickwork_history (what, schedule_id, slot, run, message_id, shard, token)
    SELECT 'stored', NEW.schedule_id, NEW.slot, NEW.run, NEW.id, shards.shard, shards.token
    FROM tickwork_schedules AS s JOIN tickwork_shards AS shards
        ON shards.shard = s.bucket / (4096 / (SELECT count(*) FROM tickwork_shards))
    WHERE s.tenant = NEW.tenant AND s.id = NEW.schedule_id;
END;

CREATE TRIGGER IF NOT EXISTS tickwork_history_withdrawn AFTER DELETE ON tickwork_messages
WHEN OLD.schedule_id IS NOT NULL AND OLD.claim = 0
BEGIN
    INSERT INTO tickwork_history (what, message_id) VALUES ('withdrawn', OLD.id);
END;

CREATE TRIGGER IF NOT EXISTS tickwork_history_carried AFTER UPDATE OF slot ON tickwork_messages
WHEN NEW.slot <> OLD.slot
BEGIN
    UPDATE tickwork_history SET slot = NEW.slot WHERE what = 'stored' AND message_id = NEW.id;
END;

CREATE TRIGGER IF NOT EXISTS tickwork_history_handed_over AFTER UPDATE ON tickwork_shards
WHEN NEW.node IS NOT NULL AND (NEW.node IS NOT OLD.node OR NEW.token <> OLD.token)
BEGIN
    INSERT INTO tickwork_history (what, shard, token, node, former)
    VALUES ('handed_over', NEW.shard, NEW.token, NEW.node, OLD.node);
END;

CREATE TRIGGER IF NOT EXISTS tickwork_history_renewed AFTER UPDATE OF expires_at ON tickwork_nodes
WHEN NEW.expires_at > OLD.expires_at
BEGIN
    INSERT INTO tickwork_history (what, node) VALUES ('renewed', NEW.id);
END;
