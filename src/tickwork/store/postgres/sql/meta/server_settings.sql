-- The server's version, durability settings, port and time, and whether it is a replica.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::integer AS version_number,
    current_setting('fsync')::boolean AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('full_page_writes')::boolean AS full_page_writes,
    current_setting('synchronous_standby_names') AS standbys,
    inet_server_port() AS port,
    pg_is_in_recovery() AS is_replica,
    clock_timestamp() AS now
