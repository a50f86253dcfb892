"""Errors of running a program.

DeviceError             anything that ends a run, with a message for the user
|-- RunOptionError      run options that are wrong by themselves or for the program and device
`-- DoesNotFitError     the loaded instances need more of a memory than the card has
"""

from __future__ import annotations


class DeviceError(Exception):
    """A run that cannot go on; `str(error)` is one line: what, where, and a lever."""


class RunOptionError(DeviceError):
    """Run options that are illegal by themselves or for this program and device."""


class DoesNotFitError(DeviceError):
    """The card's memory is too small for the loaded instances."""
