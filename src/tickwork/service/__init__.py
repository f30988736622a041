"""What runs in the background: one noun per process, each with a loop of its own.

```
  node.py       this process's identity and its heartbeat, in a thread of its own
  claims.py     what a node claims: known to somebody here, or given back
  intake.py     claims ahead of the slots that are free
  context.py    what all consumers of a worker share
  consumer.py   one queue: messages into slots, ends into settlements
  slots.py      the handlers of a queue under way, how many may be, and what is stopped
  stepping.py   whether what is awaited really waits
  invoking.py   one invocation of a handler, and what it said
  settling.py   ends into settlements, many in one call
  patience.py   a store that is away, and answers that got lost
  isolating.py  where a handler runs: a task, threads.py, or processes.py
  worker.py     all consumers of an app, and the keepers of the store
  leadership.py which shards are ours; the protocol is written there
  scheduler.py  slots that come up into messages
  zones.py      stored times under new zone data
  clock_jumps.py whether somebody set the database's clock
  lateness.py   what was claimed too late: to be handled, or not any more
  keeping.py    reaper, pruner, tallies: what keeps a store in order
  observing.py  what a worker tells, to lines.py for people and metrics.py for Prometheus
  watchdog.py   a thread that sees the event loop stand still
  watched.py    a worker with all who watch it
  logs.py       how lines look in a process that is ours
  running.py    a process that runs until it is told to stop
  daemons.py    its threads, which keep it from ending for no one
  loop.py       doing something again and again, whatever happens
```
"""
