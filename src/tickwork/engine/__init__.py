"""What an app does behind the names that users call.

```
app_engine    the store of each event loop, the context of verbs, sends, and running
declared      queues, workflows and schedules of the code, created in the store
entity_calls  the types of entities, and who makes direct calls
process       `app.run`: a process that runs until a signal
```
"""
