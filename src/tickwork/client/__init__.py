"""The HTTP client: `tickwork.Client` for asyncio and `tickwork.SyncClient` for plain code.

```
  noun (queues, schedules …)   a verb returns a Call: method, path, body, how to read the answer
        │
        ▼
  exchange                     retries, idempotency keys, errors; knows no sockets
        │
        ▼
  transport                    sends one request: asyncio or plain sockets
```

Every call is defined once. `Verb` gives it to both clients: one awaits it, the other returns its
result. The client knows nothing of the server's parts: it imports `errors`, values of `core`, and
httpcore (ADR 32).
"""
