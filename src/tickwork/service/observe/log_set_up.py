"""How a process of ours logs. Its handler processes log the same way."""

from __future__ import annotations

from msgspec import Struct


class LogSetUp(Struct, frozen=True, array_like=True):
    """How a process of ours logs: the requested format, and the level. Each line has the number of
    the process, if it has one."""

    log_format: str | None
    level: str
    process: int | None = None

    def apply(self) -> None:
        """Configures logging in this process; its handler processes follow."""
        from tickwork.service.observe.log_format import (
            configure_logging,  # Heavy; processes that only send do not need it.
        )

        configure_logging(self.log_format, self.level, self.process)
        _applied[:] = [self]

    @staticmethod
    def current() -> LogSetUp | None:
        """What was applied in this process; None if logging is somebody else's here."""
        return next(iter(_applied), None)


_applied: list[LogSetUp] = []
