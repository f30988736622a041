"""The plain nouns of a store, each written once for all databases."""
