"""Tests of the tools that users get for their own tests."""
