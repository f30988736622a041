-- Of the given holders, the nodes whose lease was not ended: their messages were not given to others.
SELECT id FROM tickwork_nodes WHERE id = ANY ($1::uuid[])
