"""The decisions of Tickwork, pure: no input or output, no clock, no randomness.

Time is an argument and the answer is a value; whoever calls carries it out.
"""
