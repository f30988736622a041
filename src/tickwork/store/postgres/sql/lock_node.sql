-- Takes a node for its end: no claim of it can be under way after this.
SELECT id FROM tickwork_nodes WHERE id = $1 FOR UPDATE
