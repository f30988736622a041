"""The tests of Tickwork: one folder per part, `kit` for what they share."""
