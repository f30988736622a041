-- The places of some notes of settlements.
SELECT ctid::text AS place FROM tickwork_ended_counts LIMIT $1
