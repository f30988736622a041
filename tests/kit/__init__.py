"""The fault kit: real servers, real processes, real faults, and laws to judge what happened.

**A PostgreSQL** (fixtures of every test, see fixtures.py)

- `postgres_url`: a fresh, empty database. `postgres_server`: the server it is on, shared and not to
  be stopped; `await postgres_server.create_database(template_url=…)` makes more. With
  `TESTS_POSTGRES_URL` an external server is used instead; a wrong URL is a failure.
- `durable_postgres`: a server of the test's own with fsync on: `stop("immediate")` is a crash,
  `start()`, `restart()`, `pid`, `data_dir`, `settings`. `TESTS_PG_MAJOR=16` takes the older
  version, `TESTS_PG_BIN` other programs.
- postgres.py (the server), databases.py (databases on it), postgres_binaries.py (its programs),
  machine_cache.py (made once per machine), guard.py and work_dirs.py (nothing outlives the tests).

**The network between**

- proxy.py: `TcpProxy(host, port)`: `cut()`, `refuse`, `blackhole`, `delay_to_server_seconds`.
- postgres_proxy.py: `PostgresProxy(url)`, used by its `url`: `lose_commit_reply()` (it happened),
  `lose_commit_request()` (it did not), `lose_reply_to(pattern)`, `delay_commit(seconds)`;
  `statements`, `count(pattern)`, `round_trips`. wire.py reads the protocol.
- pooler.py: `TransactionPooler(url, server_connections=2)`: as behind PgBouncer, nothing of a
  session lasts beyond a transaction.

**Processes** (fixture `children`)

- process.py: `child = children.spawn(script, …)`; `kill9()`, `stop()`, `cont()`, `await wait()`,
  `lines()`. leash.py ties it to us.
- points.py: the child says `reach("claimed", message=…)`; the test says
  `spawn(…, arms=[Arm("claimed", "kill", after=2)])` or `child.arm(…)`, then
  `await child.reached("claimed")`, and `child.release("claimed")` after a pause.

**What happened**

- history.py: `HistoryWriter(path, process)` in any number of processes, `read_history(path)`.
- checkers.py: laws over a history: nothing_lost, nothing_twice, at_most_one_live_claim,
  claims_rise, refused_after_loss, effects_once. Each returns its violations; assert that it is [].
- trace.py: `async with traced(children, pid) as trace`: was it synced before it was answered?
  tracer.py is the program behind it.

**Waiting**: `await eventually(condition)` of waiting.py. Nothing else sleeps.
"""
