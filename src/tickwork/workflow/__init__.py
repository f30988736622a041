"""Durable workflows: a kind of handler whose body is run again from the top, with recorded steps.

A run is one message of the hidden queue of its workflow. A worker claims it, reads what is
recorded, and runs the body. A step that is recorded returns its result at once; the first one that
is not is carried out and recorded.

```
  claim ──▶ read the record ──▶ the body, from the top
               ▲                   │ a step without a record: do it, record it (fenced by the claim)
               │                   │ nothing to do but wait: the body is dropped, and the message
               └───────────────────┘ released until its time, or until the run gets a signal
                                   │ it returns or raises: the run ends, and its message is acked
```
"""
