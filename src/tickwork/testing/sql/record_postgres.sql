-- Records, in one order and in the transaction that does it: every message stored for a slot, with the token of
-- its shard at that moment; every message withdrawn before a claim; every transfer of a shard; every renewal of a
-- lease. A slot that is moved with the clock is recorded with its new time.
CREATE TABLE IF NOT EXISTS tickwork_history (
    seq bigserial PRIMARY KEY,
    what text NOT NULL,
    schedule_id uuid,
    slot timestamptz,
    run integer,
    message_id uuid,
    shard smallint,
    token bigint,
    node uuid,
    former uuid
);

CREATE OR REPLACE FUNCTION tickwork_history_stored() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwork_history (what, schedule_id, slot, run, message_id, shard, token)
    SELECT 'stored', NEW.schedule_id, NEW.slot, NEW.run, NEW.id, shards.shard, shards.token
    FROM tickwork_schedules AS s JOIN tickwork_shards AS shards
        ON shards.shard = s.bucket / (4096 / (SELECT count(*) FROM tickwork_shards))
    WHERE s.tenant = NEW.tenant AND s.id = NEW.schedule_id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tickwork_history_withdrawn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwork_history (what, message_id) VALUES ('withdrawn', OLD.id);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tickwork_history_carried() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tickwork_history SET slot = NEW.slot WHERE what = 'stored' AND message_id = NEW.id;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tickwork_history_handed_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwork_history (what, shard, token, node, former)
    VALUES ('handed_over', NEW.shard, NEW.token, NEW.node, OLD.node);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tickwork_history_renewed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwork_history (what, node) VALUES ('renewed', NEW.id);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tickwork_history_stored AFTER INSERT ON tickwork_messages
    FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL) EXECUTE FUNCTION tickwork_history_stored();
CREATE OR REPLACE TRIGGER tickwork_history_withdrawn AFTER DELETE ON tickwork_messages
    FOR EACH ROW WHEN (OLD.schedule_id IS NOT NULL AND OLD.claim = 0)
    EXECUTE FUNCTION tickwork_history_withdrawn();
CREATE OR REPLACE TRIGGER tickwork_history_carried AFTER UPDATE OF slot ON tickwork_messages
    FOR EACH ROW WHEN (NEW.slot <> OLD.slot) EXECUTE FUNCTION tickwork_history_carried();
CREATE OR REPLACE TRIGGER tickwork_history_handed_over AFTER UPDATE ON tickwork_shards
    FOR EACH ROW WHEN (NEW.node IS NOT NULL AND (NEW.node, NEW.token) IS DISTINCT FROM (OLD.node, OLD.token))
    EXECUTE FUNCTION tickwork_history_handed_over();
CREATE OR REPLACE TRIGGER tickwork_history_renewed AFTER UPDATE OF expires_at ON tickwork_nodes
    FOR EACH ROW WHEN (NEW.expires_at > OLD.expires_at) EXECUTE FUNCTION tickwork_history_renewed();
