"""The OpenAPI held against the application: whatever fits it or not, no fault of ours, nothing that
it does not say. Every route is tried, as an operator, a service and an agent, and every second time
about something that is there.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from sayso import Principal, Sayso
from sayso.server.app import create_app
from sayso.server.caller import AGENT_SCOPES, SCOPES
from sayso.server.token import Tokens
from tests.engine.kit import held

from .conftest import teller
from .test_routes import TABLE

KINDS = ("person", "service", "agent")


class Running:
    """A real server in a thread, with a token of each kind, and names of what is there."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        self.there: dict[str, str] = {"project": "default", "person_id": "ann", "name": "note"}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> str:
        self._thread.start()
        assert self._ready.wait(60)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    async def _run(self) -> None:
        sayso = Sayso("memory:", agents=[teller([])])
        async with sayso:
            for kind in KINDS:
                scopes = AGENT_SCOPES if kind == "agent" else SCOPES
                _, self.tokens[kind] = await Tokens(sayso.store).create(
                    name=kind, by=Principal(id=kind, kind=kind), project="default", scopes=scopes
                )
            await sayso.people.put("person", roles=["operator"])
            await sayso.people.put("ann")
            for _ in range(3):
                run = await sayso.start("teller", "pay 5", by="person", thread=f"chat {_}")
            hold = await held(run)
            self.there |= {"run_id": run.id, "hold_id": hold.id, "request_id": hold.request_id}
            spare, _ = await Tokens(sayso.store).create(
                name="spare", by=Principal(id="ann"), project="default"
            )
            self.there |= {"token_id": spare.id, "chat_id": "chat 2"}
            config = uvicorn.Config(create_app(sayso), port=0, log_level="error", lifespan="off")
            self._server = uvicorn.Server(config)
            serving = asyncio.create_task(self._server.serve())
            while not self._server.started:
                await asyncio.sleep(0.01)
            self._ready.set()
            await serving


@pytest.fixture(scope="module")
def running():
    server = Running()
    url = server.start()
    yield url, server
    server.stop()


@pytest.fixture(scope="module")
def schema(running):
    return schemathesis.openapi.from_url(f"{running[0]}/openapi.json")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_sent_is_answered_as_the_schema_says(running, schema, kind, examples):
    url, server = running
    headers = {"Authorization": f"Bearer {server.tokens[kind]}"}
    faults: list[str] = []
    tried: set[tuple[str, str]] = set()
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy(), there=st.booleans())
        @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
        def one(case, there):
            if there:
                case.path_parameters.update(
                    {name: server.there.get(name, it) for name, it in case.path_parameters.items()}
                )
            # What is followed for ever does not end: test_streams.py.
            for name in ("follow", "wait_s"):
                case.query.pop(name, None)
            tried.add((case.method.upper(), case.operation.path))
            answer = case.call(base_url=url, headers=headers, timeout=60)
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])
            if case.meta.generation.mode is GenerationMode.POSITIVE and answer.status_code == 422:
                # A schema cannot say all that there is to say: the rest is said by name.
                assert answer.json()["type"] != "urn:sayso:problem:invalid-request"

        try:
            one()
        except (Exception, BaseExceptionGroup) as error:
            faults.append(f"{operation.method.upper()} {operation.path}: {error!r:.1500}")
    assert not faults, "\n\n".join(faults)
    assert tried == set(TABLE)
