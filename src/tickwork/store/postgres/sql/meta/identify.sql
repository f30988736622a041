-- Which server and database a connection works on, and which of its schemas has our tables there; NULL
-- for none. Every role may ask when the server was started; its number is refused to some. The last two
-- are looked at for their types.
SELECT
    (extract(EPOCH FROM pg_postmaster_start_time()) * 1000000)::bigint AS server, current_database() AS database,
    to_regclass('tickwork_messages')::oid::bigint AS messages,
    '00000000-0000-0000-0000-000000000000'::uuid AS id, clock_timestamp() AS now
