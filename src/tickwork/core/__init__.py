"""The decisions of Tickwork as pure functions: no I/O, no clock, no random numbers.

Time is an argument. A decision is returned as a value, and the caller carries it out.
"""
