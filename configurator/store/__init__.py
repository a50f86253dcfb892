"""Studies and their trials, remembered. SQLAlchemy is imported when a database is opened."""

from configurator.store.base import Store
from configurator.store.memory import MemoryStore
from configurator.store.opening import open_store

__all__ = ["MemoryStore", "Store", "open_store"]
