-- The places of some notes of settlements.
SELECT place FROM tickwork_ended_counts ORDER BY place LIMIT ?1
