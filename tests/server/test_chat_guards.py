"""What a chat does not do, whoever asks: for whom, on what, and how often."""

from __future__ import annotations

from pathlib import Path

from sayso import tool
from sayso.agents.single import NAME, describe_call
from tests.server.test_chat import desk, said


async def test_a_chat_is_with_an_agent_and_with_none_of_our_own_parts(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effect="once")
    async def wipe(what: str) -> str:
        done.append(what)
        return what

    async with desk(tmp_path, tools=[wipe]) as here:
        body = {**said("c", describe_call("wipe", {"what": "disk"})), "agent": NAME}
        status, problem = await here.refused(body)

        assert (status, problem["type"]) == (404, "urn:sayso:problem:unknown-agent")
        assert (await here.page("c"))["messages"] == []
        assert done == []
