"""A process of an older Sayso: `python upgrade_child.py ADDRESS`.

It appends to one run until its standard input says that it is enough, and prints every number, or
why it cannot go on.
"""

import asyncio
import os
import sys

from sayso.errors import SaysoError
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_migrate import released
from sayso.testing.contract import write


async def main(url: str) -> None:
    store = await PostgresStore.open(url, steps=released())
    os.set_blocking(0, False)
    done = 0
    try:
        while sys.stdin.readline().strip() != "enough":
            await store.append(write(after=done))
            done += 1
            print(done, flush=True)
    except SaysoError as error:
        print(type(error).__name__, flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
