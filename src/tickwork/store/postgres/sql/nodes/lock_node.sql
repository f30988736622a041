-- Takes a node: nothing that it claims or takes can be under way after this.
SELECT id FROM tickwork_nodes WHERE id = $1 FOR UPDATE
