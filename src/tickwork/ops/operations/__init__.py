"""Operations: long work on many rows, which nodes carry on in batches. `core/operation.py` has the
life of one."""
