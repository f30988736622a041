"""What is one store's own: the laws of all stores are in tests/conformance."""
