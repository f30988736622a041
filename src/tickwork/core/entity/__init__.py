"""Entities: keyed objects with private storage and one alarm; the pure part."""
