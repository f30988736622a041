"""The engine that runs in the background: worker, scheduler, node, and what observes them.

```
  loop                 runs a step forever, whatever it raises
  node                 this process's identity, lease and heartbeat thread
  outages              heartbeats that fail: reports, alerts, events
  maintenance          reaper, pruner, counters: background tasks that maintain a store
  process_lifecycle    runs a process until a signal stops it

  worker/worker        all consumers of an app on one node; shutdown
  worker/suspects      messages that may have killed their worker run separately
  worker/consumer      one queue: claims messages, runs handlers, settles results
  worker/claim         claims of a node whose answers may get lost; late messages; shared context
  worker/prefetch      how many messages to claim before a permit is free
  worker/intake        what a handler gets of the claimed messages
  worker/permits       how many handlers may run, and starting them
  worker/invocations   the handlers that run: stopping them, and waiting for them
  worker/invoke        one invocation of a handler, and its outcome
  worker/endings       how a message ends
  worker/settle        settles finished messages, many in one call
  worker/settle_retry  retries settlements while the store is unavailable

  delivery             the built-in consumers that deliver outside; its docstring lists them

  isolation            runs a handler in a task, a thread or a process
  isolation/threads            threads for plain functions; abandoned handlers
  isolation/process_pool       handler processes: reused, killed, replaced
  isolation/process_handle     one handler process, from the worker's side
  isolation/process_main       one handler process, from the inside
  isolation/protocol           what the two send each other
  isolation/function_location  the import path of a handler

  scheduler/scheduler       turns due slots into messages
  scheduler/leadership      which shards this node leads; the protocol is described there
  scheduler/calendars       a cache of calendar days
  scheduler/tzdata          recomputes stored times under new tzdata
  scheduler/database_clock  detects when somebody set the database's clock

  observe                   Observer: a method for each event; Observers: passes them to the sinks
  observe/log_events        log lines of workers and nodes
  observe/message_log       log lines about messages
  observe/schedule_log      log lines about schedules
  observe/log_format        the format of log lines in a process of ours
  observe/log_set_up        how a process of ours logs, passed on to its handler processes
  observe/metrics           Prometheus metrics of a worker, and their HTTP server
  observe/schedule_metrics  Prometheus metrics of slots and the scheduler
  observe/watchdog          a thread that notices a blocked event loop
```

`wiring.assembly.assemble` puts these parts together.
"""
