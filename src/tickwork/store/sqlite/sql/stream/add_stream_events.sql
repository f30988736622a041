-- Stores a system event for streams, with the owner of the schedule that it is about.
INSERT INTO tickwork_stream_events (id, tenant, owner, at, type, data)
VALUES (
    ?1, ?2, (SELECT owner FROM tickwork_schedules WHERE tenant = ?2 AND id = ?3), ?4, ?5, ?6
)
