"""A process that works on a store, with a model that speaks slowly.

    python feed_child.py STORE FOLDER

It speaks a word every few milliseconds until there is a file `stop` in the folder.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from sayso import Agent, Sayso, tool
from sayso.engine.ports import Answer, AskedCall, Prompt

WORDS_MAX = 5000
LOOKS = 12


class Speaker:
    """Speaks until it is stopped; when it is told to look, it looks a dozen times."""

    name = "speaker"

    def __init__(self, stop: Path) -> None:
        self._stop = stop

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        first = prompt.messages[0]
        if getattr(first, "text", "") == "look":
            count = sum(hasattr(one, "outcome") for one in prompt.messages)
            calls = (AskedCall(tool="look"),) if count < LOOKS else ()
            return Answer(text="looked", calls=calls)
        said: list[str] = []
        while not self._stop.exists() and len(said) < WORDS_MAX:
            said.append(f"wörd-{len(said)} ")
            emit(said[-1])
            await asyncio.sleep(0.005)
        return Answer(text="".join(said) or "nothing")


async def main(store: str, folder: Path) -> None:
    @tool(effect="none")
    async def look() -> str:
        return "seen"

    agent = Agent("speaker", model=Speaker(folder / "stop"), tools=[look])
    async with Sayso(store, agents=[agent]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
