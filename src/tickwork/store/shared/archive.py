"""The archive: what retention deletes is first written to a directory, as compressed JSON lines.

A file appears under its name only when it is complete and on disk. Its records are deleted after
that, so a full disk keeps them. If the deletion fails after all, the next pass writes the same
records under the same name again.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import msgspec

from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.message.history import EndedRecord
from tickwork.core.model import ContentType
from tickwork.core.schedule.firing import FiringRecord
from tickwork.errors import StoreUnavailable

FIRINGS, DEAD_LETTERS = "firings", "dead_letters"
HISTORY = "history"

Archived: TypeAlias = FiringRecord | StoredDeadLetter | EndedRecord
"""A record that is archived."""

ARCHIVE_BATCH_MAX = 200
"""Maximum number of dead letters in one file: they are in memory with their bodies."""

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
"""Modes of what is new: nobody but its owner may read it. It holds bodies of messages."""

Write = Callable[[Iterable[object]], None]
"""Appends records to a file."""


class Archive:
    """A directory for records past their retention."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def check(self) -> None:
        """Creates the directory. Raises `StoreUnavailable` if files cannot be written to it."""
        with self._reported():
            self.directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
            probe = self.directory / f".{uuid4().hex}.part"
            probe.touch()
            probe.unlink()

    def write(self, kind: str, now: datetime, records: Iterable[Archived]) -> None:
        """Writes records to a file named by its kind, the hour, and the first record."""
        encoded = [archived_fields(record) for record in records]
        with self.open(f"{kind}-{now:%Y%m%dT%H}-{encoded[0]['id']}") as append:
            append(encoded)

    @contextmanager
    def open(self, name: str) -> Iterator[Write]:
        """Opens a file for records. It gets its name when the block ends without an error."""
        encoder, newline = msgspec.json.Encoder(), b"\n"
        part = self.directory / f".{uuid4().hex}.part"
        with self._reported():
            try:
                with os.fdopen(os.open(part, _NEW, _FILE_MODE), "wb") as file:
                    with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                        yield lambda records: packed.writelines(
                            encoder.encode(record) + newline for record in records
                        )
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(self.directory / f"{name}.jsonl.gz")
            finally:
                with suppress(OSError):
                    part.unlink()
            _sync_directory(self.directory)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"archive_directory {self.directory} cannot be written: {error.strerror or error}; "
                "records past their retention are kept until it can"
            ) from error


def open_archive(directory: str | None) -> Archive | None:
    """The archive in a directory, which is created; None without one. Raises `StoreUnavailable` if
    it is not writable."""
    if directory is None:
        return None
    archive = Archive(Path(directory))
    archive.check()
    return archive


def _sync_directory(directory: Path) -> None:
    """Makes a new name in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def archived_fields(record: Archived) -> dict[str, Any]:
    """The fields of a record. A body is JSON, a text, or bytes in base64."""
    fields = msgspec.structs.asdict(record)
    if not isinstance(record, FiringRecord) and record.body is not None:
        if record.content_type == ContentType.JSON:
            fields["body"] = msgspec.Raw(record.body)
        elif record.content_type == ContentType.TEXT:
            fields["body"] = record.body.decode()
    return fields


def hour_of(now: datetime) -> datetime:
    """The start of the hour: records are archived once an hour, in few files."""
    return now.replace(minute=0, second=0, microsecond=0)
