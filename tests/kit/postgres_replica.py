"""A copy of a running PostgreSQL server that follows it, until it is cut off or promoted.

Contract: after `start()` it follows its primary asynchronously. `caught_up()` returns when it has
everything that the primary had written when it was called; after `cut_off()` it gets nothing any
more; after `promote()` it is a primary of its own, on the next timeline.
"""

import subprocess

import asyncpg

from tests.kit.postgres import PostgresFailed, PostgresServer
from tests.kit.waiting import eventually
from tests.kit.work_dirs import WorkDir

COPY_SECONDS_MAX = 120


class PostgresReplica(PostgresServer):
    """Follows a primary, which must allow replication."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(settings=primary.settings)
        self._primary = primary

    async def caught_up(self) -> None:
        written = await _fetch(self._primary.url, "SELECT pg_current_wal_flush_lsn()::text")

        async def has_it() -> bool:
            reached = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
            return bool(await _fetch(self.url, reached, written))

        await eventually(has_it, timeout_seconds=COPY_SECONDS_MAX, what="the replica to follow")

    async def cut_off(self) -> None:
        await _execute(self.url, "ALTER SYSTEM SET primary_conninfo = ''")
        await _execute(self.url, "SELECT pg_reload_conf()")

        async def is_alone() -> bool:
            return not await _fetch(self._primary.url, "SELECT count(*) FROM pg_stat_replication")

        await eventually(is_alone, timeout_seconds=COPY_SECONDS_MAX, what="the replica to be alone")

    async def promote(self) -> None:
        await _execute(self.url, f"SELECT pg_promote(true, {COPY_SECONDS_MAX})")

    def _make_data_dir(self) -> None:
        self._work_dir = WorkDir.take("postgres")
        self._user.own(self._work_dir.path)
        command = [str(self._programs / "pg_basebackup"), "-d", self._primary.url]
        options = ["-D", str(self.data_dir), "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        done = subprocess.run(
            [*command, *options],
            cwd="/",
            user=None if self._user.is_us else self._user.uid,
            group=None if self._user.is_us else self._user.gid,
            extra_groups=None if self._user.is_us else [],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COPY_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise PostgresFailed(f"no copy: {done.stdout.decode(errors='replace')}")


async def _fetch(url: str, query: str, *values: object) -> object:
    connection = await asyncpg.connect(url)
    try:
        found: object = await connection.fetchval(query, *values)
        return found
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> None:
    await _fetch(url, statement)
