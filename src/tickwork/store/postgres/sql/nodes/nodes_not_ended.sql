-- Which of some holders are nodes whose lease nobody ended: what they held nobody else got.
SELECT id FROM tickwork_nodes WHERE id = ANY ($1::uuid[])
