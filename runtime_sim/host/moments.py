"""The moments of an inference, from the call to its completion, and the stages between them."""

from __future__ import annotations

from enum import IntEnum


class Moment(IntEnum):
    """When something happened to an inference, in this order."""

    ASKED = 0
    """the runtime is called"""
    PREPARING = 1
    """a thread of the queue takes it"""
    PREPARED = 2
    """its inputs are in the transfer buffers"""
    SUBMITTED = 3
    """the card's channel has the request"""
    SENDING = 4
    """a buffer on the card is free, the input transfer begins"""
    ARRIVED = 5
    """the inputs are on the card"""
    BEGUN = 6
    """the cores start"""
    ENDED = 7
    """the cores are done with it"""
    DRAINED = 8
    """the outputs are in the host's memory"""
    FINISHING = 9
    """a thread of the queue takes the result"""
    DONE = 10
    """post-processing is over"""
