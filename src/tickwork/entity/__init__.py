"""Entities: keyed objects with private storage and an alarm, one call at a time in the cluster.

A call is a message in the hidden queue of its type, with a key. A send is handled by any worker; a
direct call runs in the caller's process, which claims its message. Both run in `run.py`: they read
the state, collect changes, and commit them with the ack of the message.
"""
