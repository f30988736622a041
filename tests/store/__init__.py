"""Tests of one store each; the laws of all stores are in tests/conformance."""
