"""What runs in the background: one noun per process, each with a loop of its own.

```
  node.py       this process's identity and its heartbeat, in a thread of its own
  claims.py     what a node claims: known to somebody here, or given back
  intake.py     claims ahead of the slots that are free
  consumer.py   one queue: messages into slots, ends into settlements
  invoking.py   one invocation of a handler, and what it said
  isolating.py  where a handler runs: a task, threads.py, or processes.py
  worker.py     all consumers of an app, and the keepers of the store
  keeping.py    reaper, pruner, tallies: what keeps a store in order
  observing.py  what a worker tells, to lines.py for people and metrics.py for Prometheus
  watchdog.py   a thread that sees the event loop stand still
  watched.py    a worker with all who watch it
  logs.py       how lines look in a process that is ours
  loop.py       doing something again and again, whatever happens
```
"""
