"""One request to a provider through pydantic-ai, and what became of it.

Imports pydantic-ai at its top: only `pydantic_ai.py` beside it imports this, when it must.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from sayso.agents.models.history import to_messages
from sayso.engine.ports import Answer, AskedCall, Prompt
from sayso.errors import BadAgent, ModelFailed, SaysoError

RETRYABLE = frozenset({408, 409, 429})
"""The refusals that another try may overcome, beside every 5xx."""
SAID_MAX = 500
RETRY_AFTER_MAX_S = 86_400
_KEY = re.compile(r"\b(?:sk|pk|rk|gsk|xai)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer \S+")
_SAY_WHY_THEY_STOP = frozenset({"OpenAIChatModel", "AnthropicModel"})
"""The wires on which an answer without a reason to stop is one that was cut off."""


class Exchange:
    """An open door to one model."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._model = _infer(name)
        self._settings = cast("ModelSettings", dict(settings))
        if "max_retries" not in self._model.unsupported_settings:
            self._settings["max_retries"] = 0
        kinds = {kind.__name__ for kind in type(self._model).__mro__}
        self._says_why = bool(kinds & _SAY_WHY_THEY_STOP)

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        """Ask once."""
        try:
            response = await self._request(prompt, emit)
        except SaysoError:
            raise
        except Exception as error:  # noqa: BLE001
            # A provider's client may raise anything; the engine wants to know one thing. The cause
            # is left out, because it may quote a key, and tracebacks are logged.
            raise self._failed(error) from None
        if not self._is_whole(response):
            raise ModelFailed(f"the answer of {self._name} was cut off", retryable=True)
        answer = _to_answer(response)
        if response.finish_reason == "content_filter" and not (answer.text or answer.calls):
            why = (response.provider_details or {}).get("refusal", "its content filter said no")
            raise ModelFailed(f"{self._name} refused to answer: {self._redacted(str(why))}")
        return answer

    async def aclose(self) -> None:
        """Close the connections that are open."""
        async with self._model:
            pass

    async def _request(self, prompt: Prompt, emit: Callable[[str], None]) -> ModelResponse:
        tools = [
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
            )
            for tool in (each.spec() for each in prompt.tools)
        ]
        async with model_request_stream(
            self._model,
            to_messages(prompt),
            model_settings=self._settings,
            model_request_parameters=ModelRequestParameters(
                function_tools=tools, allow_text_output=True
            ),
            instrument=False,
        ) as stream:
            async for event in stream:
                if text := _text_of(event):
                    emit(text)
            return stream.get()

    def _is_whole(self, response: ModelResponse) -> bool:
        if response.state != "complete":
            return False
        said = (response.provider_details or {}).get("finish_reason")
        return bool(said) or response.finish_reason == "content_filter" or not self._says_why

    def _failed(self, error: Exception) -> ModelFailed:
        match error:
            case ModelHTTPError():
                status = error.status_code
                retryable = status in RETRYABLE or status >= 500  # noqa: PLR2004
                what = f"answered HTTP {status}"
            case ModelRequestRejectedError() | ContentFilterError() | UserError():
                retryable, what = False, "refused the request"
            case ModelAPIError() | OSError():
                retryable, what = True, "could not be reached to the end"
            case UnexpectedModelBehavior():
                retryable, what = True, "gave an answer that cannot be read"
            case _:
                retryable, what = False, f"could not be asked ({type(error).__name__})"
        wait_s = getattr(error, "retry_after", None)
        return ModelFailed(
            f"{self._name} {what}: {self._redacted(_said(error))}",
            retryable=retryable,
            # A header may say anything, endless times included.
            retry_after_ms=None if wait_s is None else int(min(wait_s, RETRY_AFTER_MAX_S) * 1000),
        )

    def _redacted(self, text: str) -> str:
        # Providers like to quote the key that they did not accept.
        key = getattr(getattr(self._model, "client", None), "api_key", None)
        if isinstance(key, str) and key:
            text = text.replace(key, "[key]")
        return _KEY.sub("[key]", text)[:SAID_MAX]


def _infer(name: str) -> Model:
    try:
        return infer_model(name)
    except ImportError as error:
        raise BadAgent(
            f'the model {name!r} needs an extra: pip install "sayso[models]" ({error})'
        ) from error
    except (UserError, ValueError) as error:
        raise BadAgent(f"the model {name!r} cannot be used: {error}") from error


def _said(error: Exception) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("message"), str):  # pyright: ignore[reportUnknownMemberType]
        return body["message"]  # pyright: ignore[reportUnknownVariableType]
    return str(error) or type(error).__name__


def _text_of(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""


def _to_answer(response: ModelResponse) -> Answer:
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    return Answer(
        text=_clean("".join(texts)),
        calls=tuple(
            AskedCall(
                tool=_clean(part.tool_name),
                args=_clean(_args(part.args)),
                given=_clean(part.tool_call_id),
            )
            for part in calls
        ),
        raw=_raw(response),
        usage=_usage(response),
    )


def _args(args: str | Mapping[str, Any] | None) -> str:
    if args is None:
        return ""
    return args if isinstance(args, str) else json.dumps(args)


def _raw(response: ModelResponse) -> bytes | None:
    try:
        return ModelMessagesTypeAdapter.dump_json([response])
    except ValueError:
        # Text that is not text, such as half a character: our own copy has to do.
        return None


def _usage(response: ModelResponse) -> dict[str, int]:
    usage = response.usage
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def _clean(text: str) -> str:
    # Halves of a character that came apart in the stream are joined; a lone one is replaced.
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
