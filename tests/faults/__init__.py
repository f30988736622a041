"""Real processes and real faults: accepted messages survive, and effects happen once.

| file | fault |
|---|---|
| test_killed.py | `kill -9` of senders and workers, at random and at named points |
| test_killed_keys.py | the same, with keys: what is sent in order is handled in order |
| test_killed_events.py | … with events that are sent many times: each has one effect |
| test_killed_caps.py | … with tenant caps: no tenant ever has more claims |
| test_killed_dead_letters.py | … with dead letters: one each, moved once |
| test_killed_batches.py | … with batches, also while they are filled: counted exactly |
| test_killed_runs.py, test_killed_entities.py | … of workers and callers, at named points |
| test_killed_at_each_await.py | … at every await of a run or a call; frozen in a step |
| test_exactly_once.py | `kill -9` of an app's workers at every commit point; claims taken away |
| test_killed_replays.py | `kill -9` of two processes that replay the same dead letters |
| test_lost_replies.py | a commit happened and its response was lost |
| test_frozen.py | SIGSTOP beyond the lease, then SIGCONT |
| test_deadly_message.py | a handler that kills its process |
| test_fsync.py | accepted means fsynced |
| test_crashed_server.py | PostgreSQL crashes under load and restarts |
| test_network.py | connections cut, delayed, swallowed |
| test_broken_files.py | SQLite: corrupt, read-only, locked, out of space |
| test_group_commit.py | a call that arrives at the worst moment |
| test_pooler.py | behind a transaction-mode pooler |
| test_scheduler_killed.py | `kill -9` of leaders while they plan and schedules change |
| test_scheduler_frozen.py | a leader frozen before its plan is sent, and before it is answered |
| test_scheduler_server.py | leaders whose server crashes, loses responses, or has another clock |
| test_scheduler_failover.py | a promoted replica that missed the last handovers |
| test_scheduler_join.py | nodes that join and leave under load |

The programs that are killed are in `programs`. `campaign.py` and `crew.py` start and kill them,
`checks.py` checks what they left behind. `fleet.py` does all of that for leaders, with the checkers
of `tickwork.testing`. Long campaigns are marked `soak`.
"""
