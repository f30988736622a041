"""Attacks: what a caller sends to stop a process, to starve others or to learn secrets."""
