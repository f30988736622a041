"""A program that prints a new id, the id of its parent process, and its arguments."""

import os
import random
import sys

from tickwork.store.ids import new_id

if __name__ == "__main__":
    said = (new_id(), random.random(), os.getppid(), os.environ.get("NAME"), *sys.argv[1:])
    sys.stdout.write(" ".join(map(str, said)) + "\n")
