"""Models by name."""

from __future__ import annotations

from sayso.engine.ports import Model
from sayso.errors import BadAgent


def check_name(name: str) -> None:
    """Refuse what cannot be a model's name. Looks nothing up."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise BadAgent(f"{name!r} does not name a model: write 'provider:name', as 'openai:gpt-5'")


def check_extra(name: str) -> None:
    """Refuse a model by name where the extra that asks it is not installed. Imports nothing."""
    from importlib.util import find_spec

    if find_spec("pydantic_ai") is None:
        raise BadAgent(f'the model {name!r} needs an extra: pip install "sayso[models]"')


def resolve(name: str) -> Model:
    """Make the model of a name such as `openai:gpt-5`. It is loaded when it is first asked."""
    check_name(name)
    check_extra(name)
    from sayso.agents.models.pydantic_ai import PydanticAIModel

    return PydanticAIModel(name)
