"""Errors of the configurator.

ConfiguratorError           anything that ends a command, with a message for the user
|-- UsageError              arguments that cannot be (exit code 2)
|-- InfeasibleError         no candidate is feasible (exit code 3)
`-- ToolError               a tool, device, file or database failed (exit code 5)
    `-- StoreError          the database is of another program, a newer schema, or unwritable
"""

from __future__ import annotations


class ConfiguratorError(Exception):
    """A command that cannot go on; `str(error)` is one line: what, where, and a lever."""


class UsageError(ConfiguratorError):
    """The arguments contradict themselves, the model or the device."""


class InfeasibleError(ConfiguratorError):
    """No candidate of the space is feasible."""


class ToolError(ConfiguratorError):
    """A tool, a device, a file or a database failed."""


class StoreError(ToolError):
    """The database cannot be opened, read or written as this version needs it."""
