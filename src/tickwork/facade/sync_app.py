"""`app.sync`. Its types are in `sync_app.pyi`, what it does in `sync_calls.py`."""

from tickwork.facade.sync_calls import Waiting as SyncApp

__all__ = ["SyncApp"]
