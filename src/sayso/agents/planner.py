"""The planner: makes a plan, works on its items beside each other, and puts the results together.

The main strand plans, answers what people say meanwhile, and writes the result; each item is worked
on in a strand of its own.

Rule 1: what the plan says is kept with the main strand; how far it has come is told by the strands.
Rule 2: after a failure nothing new begins. What has begun goes on to its end, then a new plan is
asked for; what is done stays done.
Rule 3: whatever makes the main strand due at the end of the work is said to it by the item that
ended last, in the same append.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Raw
from msgspec.structs import replace

from sayso.agents.agent import Agent, read_count
from sayso.agents.planning import (
    FAILED,
    ask_for_item,
    ask_for_plan,
    ask_for_reply,
    kept,
    looks_like_plan,
    read_items,
    tell_done,
    tell_failed,
    tell_item,
)
from sayso.domain import events as e
from sayso.domain.digest import encode_value
from sayso.domain.plan import (
    OPEN,
    Item,
    Plan,
    Progress,
    check_order,
    over,
    plan_of,
    progress,
    ready,
    to_raw,
)
from sayso.domain.run import Run
from sayso.domain.value import SAYSO
from sayso.engine.ports import Answer, Change, Intervention, Model, Prompt, Reading, Scene, Tool
from sayso.errors import BadValue, CannotGoOn, NotUnderstood

PLAN_TRIES_MAX = 3
"""How often in a row a model may give a plan that cannot be used."""
RESULT_BYTES_MAX = 64 * 1024
"""No item's result is longer: others are told it in full."""
ERROR_MAX = 2000

Stage = Literal["plan", "work", "replan", "synthesise"]


class Planner(Agent):
    """An agent that makes a plan first: its items are worked on with the tools, those that do not
    build on one another at the same time, and the result is made of theirs.

    `items_max` bounds a plan, `replans_max` how often a new one is made after an item has failed,
    and `turns_max` and `timeout` the turns and the working time of the whole run.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: str = "",
        tools: Iterable[Tool] = (),
        output: Any = None,
        items_max: int = 20,
        replans_max: int = 2,
        turns_max: int = 200,
        timeout: str | float | None = None,
        model_tries_max: int = 4,
        version: str = "1",
        check_for_intervention: Intervention | None = None,
        commands: Iterable[Tool] = (),
        resolve: str = "each",
        siblings: str = "run",
        on_reject: str = "tell",
    ) -> None:
        super().__init__(
            name,
            model=model,
            instructions=instructions,
            tools=tools,
            output=output,
            turns_max=turns_max,
            timeout=timeout,
            model_tries_max=model_tries_max,
            version=version,
            check_for_intervention=check_for_intervention,
            commands=commands,
            resolve=resolve,
            siblings=siblings,
            on_reject=on_reject,
        )
        self.items_max = read_count(name, "items_max", items_max)
        self.replans_max = read_count(name, "replans_max", replans_max, least=0)

    def __repr__(self) -> str:
        return f"<planner {self.name!r}>"

    def lacks(self, scene: Scene) -> Sequence[str]:
        """Say whether what the run keeps is no plan of a planner."""
        data = scene.transcript.strands[e.MAIN].data
        no_plan = data is not None and plan_of(scene.transcript) is None
        return ["what it keeps is no plan that this version can read"] if no_plan else []

    def next(self, scene: Scene, strand: str) -> Prompt | Change:
        """Ask for a plan, for an item's result, for a reply, or for the run's result."""
        messages = scene.transcript.messages(strand)
        tools = tuple(self._offered.values())
        if strand != e.MAIN:
            goal = scene.transcript.strands[e.MAIN].said[0][1].text
            wish = ask_for_item(self.instructions, goal)
            return Prompt(messages=messages, instructions=wish, tools=tools)
        plan = _plan(scene)
        match _stage(scene, plan):
            case "synthesise":
                wish = self._instructions()
            case "work":
                wish = ask_for_reply(self.instructions, _states(scene, plan), self.items_max)
            case _:
                self._check_spent(scene, plan)
                wish = ask_for_plan(self.instructions, tools, self.items_max)
        return Prompt(messages=messages, instructions=wish)

    def read(self, scene: Scene, strand: str, answer: Answer) -> Reading:
        """Make a plan, an item's result or the run's result of an answer."""
        if strand != e.MAIN:
            return _read_item(self, strand, answer.text)
        stage = _stage(scene, _plan(scene))
        if stage == "synthesise":
            return self.conclude(answer)
        if stage == "work" and not looks_like_plan(answer.text):
            return Reading(change=_nothing)
        return Reading(change=lambda now: self._replan(now, answer.text, stage))

    def failed(self, strand: str, error: str) -> Change | None:
        """Let an item fail whose model does; without the main strand the run cannot go on."""
        return None if strand == e.MAIN else self.closing(strand, error=error)

    def closing(self, strand: str, *, result: bytes | None = None, error: str = "") -> Change:
        """Close an item, and go on with what that leads to."""
        error = error[:ERROR_MAX]

        def change(scene: Scene) -> Sequence[e.Event]:
            plan = _plan(scene)
            states = [
                over(one, result, error) if one.strand == strand else one
                for one in _states(scene, plan)
            ]
            raw = None if result is None else Raw(result)
            closed = e.StrandClosed(strand=strand, result=raw, error=error)
            return [closed, *_go_on(scene.run, plan, states)]

        return change

    def _check_spent(self, scene: Scene, plan: Plan) -> None:
        if plan.tries >= PLAN_TRIES_MAX:
            raise CannotGoOn(
                f"the model made no usable plan in {PLAN_TRIES_MAX} tries: {plan.trouble}"
            )
        if plan.replans > self.replans_max:
            failed = [one for one in _states(scene, plan) if one.status == "failed"]
            why = "; ".join(f"the item {one.item.id!r} failed: {one.error}" for one in failed)
            raise CannotGoOn(f"{why} (new plans: {self.replans_max} of {self.replans_max})")

    def _replan(self, scene: Scene, text: str, stage: Stage) -> Sequence[e.Event]:
        """Take a plan into use, or say what is wrong with it."""
        plan = _plan(scene)
        states = _states(scene, plan)
        stay = kept(states, open_too=stage == "work")
        try:
            plan = self._read_plan(plan, stay, text)
        except BadValue as error:
            return _complain(plan, str(error), stage)
        known = {(one.item.id, one.item.round): one for one in states}
        states = [known.get((item.id, item.round)) or Progress(item=item) for item in plan.items]
        changed = e.StrandChanged(strand=e.MAIN, data=to_raw(plan))
        if stage == "work":
            # Whichever item ended the work meanwhile has said so to the main strand.
            return [changed, *_open_ready(scene.run, states)]
        return [changed, *_go_on(scene.run, plan, states)]

    def _read_plan(self, plan: Plan, stay: Sequence[Item], text: str) -> Plan:
        there = {item.id for item in stay}
        made = plan.round + 1
        # A model may list all over again what has begun; that stays as it is.
        new = [item for item in read_items(text, made) if item.id not in there]
        check_order(new, there)
        items = (*stay, *new)
        if not items:
            raise BadValue("a plan has at least one item")
        if len(items) > self.items_max:
            raise BadValue(f"it has {len(items)} items, more than {self.items_max}")
        return Plan(items=items, round=made, replans=plan.replans)


def _read_item(planner: Planner, strand: str, text: str) -> Reading:
    if text.lstrip().startswith(FAILED):
        why = text.strip().removeprefix(FAILED).strip()
        return Reading(change=planner.closing(strand, error=why or "it did not say why"))
    try:
        result = encode_value(text, bytes_max=RESULT_BYTES_MAX)
    except BadValue as error:
        return Reading(complaint=f"Your answer cannot be used: {error}")
    return Reading(change=planner.closing(strand, result=result))


def _nothing(scene: Scene) -> Sequence[e.Event]:
    del scene
    return ()


def _plan(scene: Scene) -> Plan:
    plan = plan_of(scene.transcript)
    if plan is None and scene.transcript.strands[e.MAIN].data is not None:
        raise NotUnderstood(f"what {scene.run.id!r} keeps is no plan that this version can read")
    return plan or Plan()


def _states(scene: Scene, plan: Plan) -> list[Progress]:
    return progress(plan, scene.run, scene.transcript)


def _stage(scene: Scene, plan: Plan) -> Stage:
    """Say what the main strand is asked for.

    Told by the run and not the transcript where they differ: the model may take its time over an
    answer, and what it answers is what it was asked, however far the items have come meanwhile.
    """
    if len(scene.run.strands) > 1:
        return "work"
    if not plan.items:
        return "plan"
    done = all(one.status == "done" for one in _states(scene, plan))
    return "synthesise" if done else "replan"


def _go_on(run: Run, plan: Plan, states: Sequence[Progress]) -> Sequence[e.Event]:
    """Begin what can begin; if nothing is left, say so to the main strand."""
    opened = _open_ready(run, states)
    if opened or any(one.status in OPEN for one in states):
        return opened
    if all(one.status == "done" for one in states):
        return [e.MessageReceived(by=SAYSO, text=tell_done(states))]
    plan = replace(plan, replans=plan.replans + 1, tries=0)
    return [
        e.StrandChanged(strand=e.MAIN, data=to_raw(plan)),
        e.MessageReceived(by=SAYSO, text=tell_failed(states)),
    ]


def _open_ready(run: Run, states: Sequence[Progress]) -> list[e.Event]:
    if any(one.status == "failed" for one in states):
        return []
    return [
        e.StrandOpened(strand=f"item.{number}", text=tell_item(item, states), data=to_raw(item))
        for number, item in enumerate(ready(states), start=run.strands_opened + 1)
    ]


def _complain(plan: Plan, trouble: str, stage: Stage) -> Sequence[e.Event]:
    if stage == "work" and plan.tries >= PLAN_TRIES_MAX:
        return ()  # The plan that there is goes on.
    plan = replace(plan, tries=plan.tries + 1, trouble=trouble[:ERROR_MAX])
    text = f"Your plan cannot be used: {trouble}"
    return [
        e.StrandChanged(strand=e.MAIN, data=to_raw(plan)),
        e.MessageReceived(by=SAYSO, text=text),
    ]
