"""The scheduler: a node that leads shards turns due slots into messages."""
