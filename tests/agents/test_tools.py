import asyncio
import contextvars
import functools
import inspect
import json
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from typing import Annotated, Any, NewType, Optional

import msgspec
import pytest
from pydantic import (
    BaseModel,
    Json,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    model_serializer,
)
from typing_extensions import TypedDict  # pydantic refuses that of typing before Python 3.12.

from sayso import question
from sayso.agents.builtin import ask_user
from sayso.agents.tools import _SILENT_WORDS, FunctionTool, make_tool, tool
from sayso.domain.call import Effect
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.ruling import owner, require, role, user
from sayso.domain.secret import Secret as SaysoSecret
from sayso.domain.value import Principal
from sayso.engine.ports import Context, Happened, NotHappened, Tool
from sayso.errors import BadPolicy, BadTool, BadValue

CTX = Context(
    run_id="run_1",
    call_id="run_1.0.0",
    key="key_1",
    attempt=1,
    by=Principal(id="mira"),
    agent="teller",
    project="default",
)


def run(made: Tool, args: Any) -> Any:
    return json.loads(asyncio.run(made.call(CTX, made.freeze(json.dumps(args)))))


def test_a_bare_decorator_takes_every_default() -> None:
    @tool
    def pay(amount: float) -> str:
        """Pay somebody.

        The rest is for people who read code.
        """
        return f"paid {amount}"

    assert (pay.name, pay.description, pay.version) == ("pay", "Pay somebody.", "1")
    assert (pay.effect, pay.risk, pay.asks_max) == (Effect.ONCE, "medium", 1)
    assert (pay.timeout_ms, pay.approval, pay.has_probe) == (300_000, None, False)


def test_a_tool_is_still_the_function_it_was_made_of() -> None:
    @tool(approval=True)
    def add(a: int, b: int = 2) -> int:
        return a + b

    assert add(1) == 3
    assert add(a=1, b=1) == 2
    assert add.__name__ == "add"


async def test_an_async_tool_is_awaited_directly_and_through_bytes() -> None:
    @tool
    async def add(a: int, b: int) -> int:
        return a + b

    assert await add(1, 2) == 3
    assert await add.call(CTX, b'{"a":1,"b":2}') == b"3"


def test_approval_is_demanded_in_the_words_given() -> None:
    @tool(
        approval=True,
        effect="once",
        risk="high",
        within="4h",
        on_silence="fail",
        on_reject="cancel",
        approvers=[owner, user("ann")],
        editable=False,
        title="Pay",
        why="It is money.",
        timeout="30s",
    )
    def pay() -> None: ...

    assert pay.approval is not None
    assert pay.approval.approvers == ("owner", "user:ann")
    assert pay.approval.within_ms == 4 * 3_600_000
    assert (pay.approval.on_silence, pay.approval.on_reject) == ("fail", "cancel")
    assert (pay.approval.risk, pay.approval.editable) == ("high", False)
    assert (pay.approval.title, pay.approval.why) == ("Pay", "It is money.")
    assert pay.timeout_ms == 30_000


def test_a_tool_takes_every_word_that_a_rule_takes() -> None:
    words: dict[str, Any] = {
        "approvers": [role("finance")],
        "quorum": 2,
        "reject_quorum": 2,
        "not_requester": True,
        "within": "8h",
        "start_by": "30m",
        "remind_every": "1h",
        "escalate_after": "1h",
        "escalate_to": role("lead"),
        "escalate": [("4h", user("cfo"))],
    }
    pay = tool(approval=True, **words)(lambda_named_pay())

    assert pay.approval == require(rule="@tool pay", **words)
    known = set(inspect.signature(require).parameters) - {"rule", "outside", "answered", "risk"}
    assert known - {"resolve", "siblings"} == set(_SILENT_WORDS)


def test_a_tool_refuses_an_option_that_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="no tool knows: quorums, wihtin"):
        make_tool(lambda_named_pay(), scope=None, approval=True, quorums=2, wihtin="4h")


def test_silence_answers_only_with_a_default() -> None:
    words: dict[str, Any] = {"within": "1h", "on_silence": "answer"}
    asks = question("How much?", default="a lot")

    made = tool(blocking=True, asks=asks, **words)(lambda_named_pay())

    assert made.name == "pay"
    for options in ({"asks": "How much?"}, {}):
        with pytest.raises(BadPolicy, match="on_silence='answer'"):
            tool(blocking=True, **options, **words)(lambda_named_pay())
    with pytest.raises(BadPolicy, match="has none"):
        ask_user(**words)


@pytest.mark.parametrize(
    "options",
    [
        {"within": "4h"},
        {"quorum": 2},
        {"reject_quorum": 2},
        {"not_requester": True},
        {"start_by": "1h"},
        {"remind_every": "1h"},
        {"escalate_after": "1h"},
        {"escalate_to": user("ann")},
        {"escalate": [("1h", user("ann"))]},
        {"on_silence": "fail"},
        {"on_reject": "cancel"},
        {"approvers": [owner]},
        {"editable": False},
        {"title": "Pay"},
        {"why": "It is money."},
    ],
    ids=lambda options: next(iter(options)),
)
def test_words_about_approval_without_approval_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadTool, match="these need approval=True"):
        tool(**options)(lambda_named_pay())


@pytest.mark.parametrize(
    "options, says",
    [
        ({"risk": "high"}, "what a second call would do"),
        ({"risk": "critical"}, "what a second call would do"),
        ({"risk": "enormous"}, "'enormous'"),
        ({"effect": "twice"}, "'twice'"),
        ({"timeout": "soon"}, "timeout of the tool 'pay'"),
        ({"timeout": 0}, "timeout of the tool 'pay'"),
        ({"asks_max": 0}, "asks_max"),
        ({"asks_max": True}, "asks_max"),
        ({"version": ""}, "version"),
        ({"approval": "yes"}, "True or False"),
        ({"name": "pay money"}, "'pay money'"),
        ({"name": "p" * 65}, "ppp"),
        ({"probe": "somewhere"}, "cannot be called"),
    ],
)
def test_options_that_could_not_work_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadTool, match=says):
        tool(**options)(lambda_named_pay())


def test_silence_never_approves_what_is_of_high_risk() -> None:
    with pytest.raises(BadPolicy):
        tool(approval=True, risk="high", effect="once", on_silence="approve", within="1h")(
            lambda_named_pay()
        )


def lambda_named_pay() -> Any:
    def pay() -> None: ...

    return pay


def takes_args(*amounts: int) -> None: ...
def takes_kwargs(**amounts: int) -> None: ...
def takes_positional(amount: int, /) -> None: ...
def takes_self(self, amount: int) -> None: ...
def yields(amount: int) -> Any:
    yield amount


async def yields_later(amount: int) -> Any:
    yield amount


@pytest.mark.parametrize(
    "fn", [takes_args, takes_kwargs, takes_positional, takes_self, yields, yields_later]
)
def test_a_signature_that_cannot_be_a_tool_is_refused_by_name(fn: Any) -> None:
    with pytest.raises(BadTool, match=f"'{fn.__name__}'"):
        tool(fn)


@pytest.mark.parametrize("thing", [3, "pay", int, lambda: None, tool(lambda_named_pay())])
def test_what_is_not_a_named_function_is_refused(thing: Any) -> None:
    with pytest.raises(BadTool):
        tool(thing)


def test_an_annotation_that_never_resolves_is_refused_at_first_use() -> None:
    def pay(amount: "Amonut") -> None: ...  # noqa: F821

    made = tool(pay)

    with pytest.raises(BadTool, match=r"'pay'.*Amonut"):
        made.spec()


@pytest.mark.parametrize("annotation", ["int[", "1 + 'a'", "int.nothing"])
def test_an_annotation_that_cannot_be_read_is_refused(annotation: str) -> None:
    def pay(amount) -> None: ...

    pay.__annotations__["amount"] = annotation

    with pytest.raises(BadTool, match="'amount' of the tool 'pay'"):
        tool(pay)


def test_a_callable_without_a_signature_is_refused() -> None:
    with pytest.raises(BadTool, match="no signature"):
        tool(name="pay")(max)


@pytest.mark.parametrize("fn", [lambda at: at, lambda at=1: at, lambda at=None: at])
def test_a_parameter_without_an_annotation_is_refused_by_name(fn: Any) -> None:
    with pytest.raises(BadTool, match=r"'at' of the tool 'look' has no annotation.*`Any`"):
        tool(name="look")(fn)


class Login(BaseModel):
    name: str
    password: SecretStr


class Logins(BaseModel):
    logins: list[Login]
    parent: "Logins | None" = None


@dataclass
class Token:
    value: SecretBytes


class Sealed(TypedDict):
    pin: Secret[int]


def open_secret(value: Any) -> dict[str, Any]:
    return {"$secret": value}


SECRETS: list[tuple[Any, Any, Any]] = [
    (SaysoSecret, "hunter2", open_secret("hunter2")),
    (SecretStr, "hunter2", open_secret("hunter2")),
    (SecretBytes, "hunter2é", open_secret("hunter2é")),
    (Secret[int], 42, open_secret(42)),
    (SecretStr | None, "hunter2", open_secret("hunter2")),
    (SaysoSecret | None, None, None),
    (Annotated[SecretStr, "The password."], "", open_secret("")),
    (NewType("Pin", SaysoSecret), "1234", open_secret("1234")),
    (dict[str, list[SecretStr]], {"a": ["x", "y"]}, {"a": [open_secret("x"), open_secret("y")]}),
    (tuple[int, SaysoSecret], [1, "x"], [1, open_secret("x")]),
    (Login, {"name": "m", "password": "x"}, {"name": "m", "password": open_secret("x")}),
    (
        list[Logins],
        [{"logins": [{"name": "m", "password": "x"}]}],
        [{"logins": [{"name": "m", "password": open_secret("x")}], "parent": None}],
    ),
    (Token, {"value": "x"}, {"value": open_secret("x")}),
    (Sealed, {"pin": 7}, {"pin": open_secret(7)}),
]


@pytest.mark.parametrize("kind, given, frozen", SECRETS, ids=[str(one[0]) for one in SECRETS])
def test_a_secret_is_frozen_in_the_open_and_handed_to_the_body(
    kind: Any, given: Any, frozen: Any
) -> None:
    got: list[Any] = []

    def log_in(to: Any) -> None:
        got.append(to)

    log_in.__annotations__["to"] = kind
    made = tool(log_in)

    data = made.freeze(encode_value({"to": given}))
    asyncio.run(made.call(CTX, data))

    assert made.takes_secrets
    assert decode_value(data) == {"to": frozen}
    assert TypeAdapter(kind).validate_python(given) == got[0]


def test_a_secret_behind_a_late_type_is_found_with_the_schema() -> None:
    class Outer(BaseModel):
        inner: "Inner"

    @tool
    def log_in(to: Outer) -> None: ...

    class Inner(BaseModel):
        password: SecretStr

    Outer.model_rebuild(_types_namespace={"Inner": Inner})

    frozen = log_in.freeze('{"to": {"inner": {"password": "x"}}}')

    assert decode_value(frozen)["to"]["inner"]["password"] == open_secret("x")
    assert log_in.takes_secrets


def test_a_model_is_told_that_a_secret_is_one() -> None:
    @tool
    def log_in(user: str, password: SaysoSecret, pin: SecretStr) -> None: ...

    fields = log_in.spec().parameters["properties"]

    hidden = {"type": "string", "format": "password", "writeOnly": True}
    assert fields["password"] == hidden
    assert fields["pin"] == hidden
    assert not tool(lambda: None, name="look").takes_secrets


class Careless(BaseModel):
    password: SecretStr

    @model_serializer
    def dumped(self) -> dict[str, str]:
        return {"password": str(self.password)}


@pytest.mark.parametrize("kind", [Careless, frozenset[SecretStr], Json[SecretStr]])
def test_a_secret_that_could_not_be_handed_over_is_refused(kind: Any) -> None:
    def log_in(to: Any) -> None: ...

    log_in.__annotations__["to"] = kind
    given = {Careless: {"password": "hunter2"}, Json[SecretStr]: '"hunter2"'}.get(kind, ["hunter2"])

    with pytest.raises(BadValue) as found:
        tool(log_in).freeze(encode_value({"to": given}))

    assert "hunter2" not in str(found.value)
    assert ("a set has no order" in str(found.value)) is (kind == frozenset[SecretStr])


def test_a_parameter_annotated_as_anything_takes_anything() -> None:
    @tool
    def look(at: Any):
        return at

    assert run(look, {"at": [1, {"a": None}]}) == [1, {"a": None}]


def test_a_type_declared_after_the_tool_is_found() -> None:
    space: dict[str, Any] = {}
    source = """
        from __future__ import annotations
        from sayso.agents.tools import tool

        @tool
        def pay(amount: Amount) -> float:
            return amount

        Amount = float
        """
    exec(textwrap.dedent(source), space)

    assert run(space["pay"], {"amount": 3}) == 3.0


def test_a_type_local_to_a_function_is_found_by_name() -> None:
    space: dict[str, Any] = {}
    source = """
        from __future__ import annotations
        from dataclasses import dataclass
        from sayso.agents.tools import tool

        def make():
            @dataclass
            class Money:
                amount: float

            @tool
            def pay(money: Money) -> float:
                return money.amount

            return pay
        """
    exec(textwrap.dedent(source), space)

    assert run(space["make"](), {"money": {"amount": 3}}) == 3.0


def with_context(ctx: Context, a: int) -> str:
    return f"{ctx.run_id} {a}"


def with_context_last(a: int, *, told: Context) -> str:
    return f"{told.run_id} {a}"


def with_optional_context(a: int, ctx: Optional[Context] = None) -> str:  # noqa: UP045
    return f"{ctx.run_id if ctx else None} {a}"


def with_context_or_none(a: int, ctx: Context | None = None) -> str:
    return f"{ctx.run_id if ctx else None} {a}"


def with_context_by_name(ctx: "Context", a: int) -> str:
    return f"{ctx.run_id} {a}"


def with_annotated_context(ctx: Annotated[Context, "what is going on"], a: int) -> str:
    return f"{ctx.run_id} {a}"


@pytest.mark.parametrize(
    "fn",
    [
        with_context,
        with_context_last,
        with_optional_context,
        with_context_or_none,
        with_context_by_name,
        with_annotated_context,
    ],
)
def test_the_context_is_filled_in_and_hidden_from_models(fn: Any) -> None:
    made = tool(fn)

    assert run(made, {"a": 1}) == "run_1 1"
    assert list(made.spec().parameters["properties"]) == ["a"]
    with pytest.raises(BadValue):
        made.freeze('{"a":1,"ctx":{}}')


def test_the_context_is_found_when_it_is_imported_for_type_checkers_only() -> None:
    space: dict[str, Any] = {}
    source = """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from sayso.agents.tools import tool
        if TYPE_CHECKING:
            from sayso import Context, Receipt

        @tool
        def pay(ctx: Context, amount: float) -> Receipt:
            return ctx.key
        """
    exec(textwrap.dedent(source), space)

    assert run(space["pay"], {"amount": 3}) == "key_1"


async def test_a_sync_tool_runs_in_a_thread_with_the_context_variables() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    who.set("mira")

    @tool
    def look() -> list[Any]:
        return [who.get(), threading.get_ident()]

    name, thread = json.loads(await look.call(CTX, b"{}"))

    assert name == "mira"
    assert thread != threading.get_ident()


async def test_a_sync_function_that_gives_an_awaitable_is_awaited() -> None:
    async def later(a: int) -> int:
        return a

    @tool
    def look(a: int) -> Any:
        return later(a)

    assert await look.call(CTX, b'{"a":1}') == b"1"


async def test_what_a_tool_raises_comes_out_as_it_is() -> None:
    @tool
    def sync_one() -> None:
        raise LookupError("not there")

    @tool
    async def async_one() -> None:
        raise LookupError("not there")

    for made in (sync_one, async_one):
        with pytest.raises(LookupError, match="not there"):
            await made.call(CTX, b"{}")


async def test_a_tool_that_ends_the_process_ends_only_its_call() -> None:
    @tool
    def sync_one() -> None:
        sys.exit(2)

    @tool
    async def async_one() -> None:
        sys.exit(2)

    for made in (sync_one, async_one):
        with pytest.raises(RuntimeError, match=r"sys\.exit\(2\)"):
            await made.call(CTX, b"{}")


async def test_tools_that_hang_do_not_stop_the_others() -> None:
    gate = threading.Event()

    @tool
    def hang() -> None:
        gate.wait()

    @tool
    def look() -> int:
        return 1

    async with asyncio.TaskGroup() as group:
        hanging = [group.create_task(hang.call(CTX, b"{}")) for _ in range(40)]
        found = await look.call(CTX, b"{}")
        gate.set()

    assert found == b"1"
    assert {task.result() for task in hanging} == {b"null"}


def test_a_tool_that_hangs_does_not_keep_the_process() -> None:
    program = """
        import asyncio, threading
        from sayso.agents.tools import tool
        from sayso.engine.ports import Context
        from sayso.domain.value import Principal

        @tool
        def hang() -> None:
            threading.Event().wait()

        ctx = Context(run_id="r", call_id="c", key="k", attempt=1, by=Principal(id="m"), agent="a",
                      project="p")

        async def main():
            try:
                await asyncio.wait_for(hang.call(ctx, b"{}"), 0.01)
            except TimeoutError:
                print("gone on")

        asyncio.run(main())
        """

    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, timeout=60
    )

    assert printed.stdout == b"gone on\n"
    assert printed.returncode == 0


async def test_stop_iteration_in_a_thread_does_not_hang_the_caller() -> None:
    @tool
    def first() -> Any:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        await first.call(CTX, b"{}")


def test_callables_that_are_not_functions_can_be_tools() -> None:
    class Payer:
        def __call__(self, amount: float) -> float:
            return amount

        def pay(self, amount: float) -> float:
            return -amount

    half = functools.partial(Payer().pay, amount=2)

    assert run(tool(name="pay")(Payer()), {"amount": 1}) == 1.0
    assert run(tool(name="pay")(half), {}) == -2.0
    assert run(tool(Payer().pay), {"amount": 1}) == -1.0


@dataclass
class Receipt:
    number: int


class Struct(msgspec.Struct):
    number: int


@pytest.mark.parametrize(
    "result, kept",
    [
        ({"b": 1, "a": [None, True]}, b'{"a":[null,true],"b":1}'),
        (None, b"null"),
        (Receipt(7), b'{"number":7}'),
        ([Struct(7)], b'[{"number":7}]'),
        (Effect.ONCE, b'"once"'),
        (10**30, b"1" + b"0" * 30),
    ],
    ids=str,
)
def test_results_are_kept_as_json(result: Any, kept: bytes) -> None:
    @tool
    def look() -> Any:
        return result

    assert asyncio.run(look.call(CTX, b"{}")) == kept


def circular() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> Any:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


class Hostile:
    @property
    def __dict__(self) -> Any:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "make",
    [
        object,
        Hostile,
        circular,
        deep,
        lambda: float("nan"),
        lambda: [1.0, float("inf")],
        lambda: "\ud800",
        lambda: {"\ud800": 1},
        lambda: "x" * 300_000,
        lambda: [0] * 300_000,
        lambda: 10**5000,
        lambda: (n for n in range(3)) if False else threading.Lock(),
    ],
)
def test_a_result_that_cannot_be_kept_says_so_because_the_tool_ran(make: Any) -> None:
    @tool
    def look() -> Any:
        return make()

    kept = json.loads(asyncio.run(look.call(CTX, b"{}")))

    assert kept["sayso"].startswith("the tool ran; its result cannot be kept as JSON: ")


def test_arguments_of_another_version_do_not_reach_the_body() -> None:
    calls: list[int] = []

    @tool
    def look(a: int) -> None:
        calls.append(a)

    for args in (b'{"b":1}', b"{}", b'{"a":1,"b":2}', b"[]", b"null"):
        with pytest.raises(BadValue):
            asyncio.run(look.call(CTX, args))
    assert calls == []


def asks(answer: Any) -> Any:
    def probe(ctx: Context, amount: float) -> Any:
        assert (ctx.key, amount) == ("key_1", 3.0)
        return answer

    return probe


@pytest.mark.parametrize(
    "answer, found",
    [
        (Happened(result=Receipt(7)), Happened(result={"number": 7})),
        (NotHappened(), NotHappened()),
        (None, None),
        (True, None),
        (False, None),
        ("yes", None),
        (Happened, None),
    ],
    ids=str,
)
async def test_only_happened_and_not_happened_count_as_answers(answer: Any, found: Any) -> None:
    @tool(probe=asks(answer))
    def pay(amount: float) -> None: ...

    assert pay.has_probe
    assert await pay.probe(CTX, b'{"amount":3.0}') == found


async def async_probe(ctx: Context) -> Happened:
    return Happened(result=ctx.key)


def plain_probe(amount: float) -> Happened:
    return Happened(result=amount)


@pytest.mark.parametrize(
    "probe, result",
    [
        (async_probe, "key_1"),
        (plain_probe, 3.0),
        (lambda ctx, **args: Happened(result=[ctx.key, args]), ["key_1", {"amount": 3.0}]),
        (lambda **args: Happened(result=[args]), [{"amount": 3.0}]),
        (lambda: Happened(result=1), 1),
        (lambda ctx, amount, limit=5: Happened(result=[ctx.key, limit]), ["key_1", 5]),
    ],
)
async def test_a_probe_takes_what_it_needs(probe: Any, result: Any) -> None:
    @tool(probe=probe)
    def pay(ctx: Context, amount: float) -> None: ...

    assert await pay.probe(CTX, b'{"amount":3.0}') == Happened(result=result)


@pytest.mark.parametrize("probe", [lambda ctx, currency: None, lambda *args: None])
def test_a_probe_that_wants_what_the_tool_has_not_is_refused(probe: Any) -> None:
    with pytest.raises(BadTool, match="probe of the tool 'pay'"):
        tool(probe=probe)(lambda_named_pay())


async def test_a_tool_without_a_probe_does_not_know() -> None:
    assert await tool(lambda_named_pay()).probe(CTX, b"{}") is None


def test_a_tool_is_what_the_engine_calls_a_tool() -> None:
    made: Tool = tool(lambda_named_pay())

    assert isinstance(made, FunctionTool)


def test_a_json_native_tool_is_made_and_called_without_pydantic() -> None:
    program = """
        import asyncio, sys
        from typing import Annotated, Any, Literal, Optional
        import sayso.agents.agent, sayso.testing
        from sayso.agents.tools import tool
        from sayso.engine.ports import Context
        from sayso.domain.value import Principal

        @tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
        async def pay(
            ctx: Context, amount: float, to: Annotated[str, "who"], tags: list[str] = [],
            how: Literal["card", "cash"] = "card", more: Optional[dict[str, Any]] = None,
        ) -> dict:
            return {"paid": amount, "key": ctx.key}

        ctx = Context(run_id="r", call_id="c", key="k", attempt=1, by=Principal(id="m"), agent="a",
                      project="p")
        args = b'{"amount":2.0,"how":"card","more":null,"tags":[],"to":"x"}'
        assert asyncio.run(pay.call(ctx, args)) == b'{"key":"k","paid":2.0}'
        sayso.agents.agent.Agent("a", model=sayso.testing.ScriptedModel([]), tools=[pay])
        sayso.agents.agent.Agent("b", model="openai:gpt-5", tools=[pay])
        print(*{name.partition(".")[0] for name in sys.modules})
        """

    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True
    ).stdout

    assert {"pydantic", "pydantic_core", "pydantic_ai"}.isdisjoint(printed.decode().split())
