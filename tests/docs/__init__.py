"""Tests of the documentation: snippets run, links resolve, imports are public."""
