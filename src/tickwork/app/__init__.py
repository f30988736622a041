"""What an app declares: queues, who handles what, payload types. A registry, and no I/O.

```
  declarations.py   queues and handlers as values, and what is wrong with them together
  payloads.py       bodies as the types that handlers are annotated with
  arriving.py       whether what is read of a body is what was sent
  messages.py       what a handler is given: a message, a batch, and what it says about them
  handling.py       the work under way: what it sent, and the rows of its own
```
"""
