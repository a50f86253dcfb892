"""Program of a test: stores trials as fast as it can until it is killed.

python store_writer.py URL
"""

from __future__ import annotations

import sys

from compiler.target import Sku, device
from configurator.records import Workflow
from configurator.space import space_for
from configurator.store import open_store
from tests.configurator import device_model


def main() -> None:
    store = open_store(sys.argv[1], create=False)
    space = space_for(Workflow.THROUGHPUT, device(Sku.STD))
    for number, candidate in enumerate(space.candidates()):
        store.add(device_model.complete(number, candidate))
        print(number, flush=True)


if __name__ == "__main__":
    main()
