"""Real processes and real faults: what is accepted survives, and happens once.

| file | fault |
|---|---|
| test_killed.py | `kill -9` of senders and workers, at random and at named points |
| test_killed_keys.py | the same, amid keys: what is sent in order is handled in order |
| test_killed_events.py | … amid events that are sent many times: each is effective once |
| test_killed_caps.py | … amid caps: no tenant ever has more in hand |
| test_killed_moves.py | … amid deaths: one dead letter, one move to the dead-letter queue |
| test_killed_batches.py | … amid batches, also of who fills them: counted exactly, completed once |
| test_exactly_once.py | `kill -9` of an app's workers at every commit point; claims taken away |
| test_killed_replays.py | `kill -9` of two who replay the same dead letters |
| test_lost_replies.py | a commit happened and its answer did not arrive |
| test_frozen.py | SIGSTOP beyond the lease, then SIGCONT |
| test_deadly_message.py | a handler that kills its process |
| test_synced.py | accepted means fsynced |
| test_crashed_server.py | PostgreSQL crashes under load and comes back |
| test_network.py | connections cut, delayed, swallowed |
| test_broken_files.py | SQLite: corrupt, read-only, locked, no room |
| test_coalescer.py | a call that comes at the worst moment |
| test_pooled.py | behind a pooler that gives connections out by transaction |
| test_scheduler_killed.py | `kill -9` of leaders while they plan, amid changes of schedules |
| test_scheduler_frozen.py | a leader frozen before its plan is sent, and before it is answered |
| test_scheduler_server.py | leaders whose server crashes, loses answers, or has other clocks |
| test_scheduler_failover.py | a replica takes over that missed the last hand-overs |
| test_scheduler_joining.py | nodes that join and leave under load |

The programs that are killed are in `programs`; `campaign.py` and `crew.py` start and kill them,
`judging.py` judges what they left behind. `scheduling.py` does all of that for leaders, with the
checkers of `tickwork.testing`. Long campaigns are marked `soak`.
"""
