-- Which database a connection works on, and which of its schemas has our tables there; NULL for none.
SELECT
    (SELECT system_identifier FROM pg_control_system()) AS cluster, current_database() AS database,
    to_regclass('tickwork_messages')::oid::bigint AS messages
