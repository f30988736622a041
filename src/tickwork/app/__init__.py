"""What an app declares and what a handler gets. No I/O.

| module | content |
|---|---|
| `declarations` | queues, handlers and schedules as values; the registry of an app |
| `handlers` | which functions can be handlers, and their options |
| `payloads` | bodies as the types that queues declare or handlers are annotated with |
| `message`, `firing` | what a handler gets |
| `invocation` | one call of a handler: what it sends and writes until its message is settled |
"""
