"""The use-cases: what they accept, refuse and answer, whoever asks."""
