"""Replies that came whole and answer nothing: empty, a repetition, a tool call written as text."""

import json
import re
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from skills_agent.state.endings import NOTE, fault_of

_FRAME: Final = re.compile(
    r"<tool_response>|<skill name=|<skill_resources name=|<available_skills>"
    rf"|\[(?:This message has no text|Nothing was said before this reply)\.\]\Z|{NOTE.pattern}",
    re.DOTALL,
)
"""How a reply begins that repeats the prompt."""
_MARK: Final = re.compile(r"```\w*|</?\w+>|<\|\w+\|>|\[TOOL_CALLS\]")
"""What templates and models put around calls; within a text of JSON it says nothing of names."""
_FUNCTION: Final = re.compile(
    r"(?:<\|?/?\w+\|?>\s*)*<function=(?P<name>[\w.-]+)>.*</function>\s*(?:<\|?/?\w+\|?>\s*)*\Z", re.DOTALL
)
_DECODER: Final = json.JSONDecoder()
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
ADVICE: Final = (
    ". Its server has to read the model's calls: llama.cpp needs --jinja; vLLM --enable-auto-tool-choice and "
    "--tool-call-parser NAME; Ollama a model whose template knows tools"
)
_AGAIN: Final = "Now say what was found or done, or call the next tool."


class NoAnswer(NamedTuple):
    """Why a reply answers nothing."""

    fault: str
    hint: str
    """What the model is told when it is asked again."""
    advice: str = ""
    """What helps where it goes on so."""


def no_answer(
    message: AIMessage, callables: Container[str], prompt: Sequence[BaseMessage]
) -> NoAnswer | None:
    """Return why a whole reply answers nothing; None where it may be an answer, or has calls.

    `callables` are the names of tools and skills; `prompt` is what the model read. JSON that a person
    asked for is no call of one, and a word beside it makes it an answer. What a model said beside its calls
    is one only where it insists (without a `prompt`).
    """
    if fault_of(message) or message.tool_calls or message.invalid_tool_calls:
        return None
    text = str(message.text).strip()
    if not text:
        return NoAnswer("its reply was empty", f"Your last reply was empty. {_AGAIN}")
    if _FRAME.match(text):
        hint = f"Your last reply only repeated a part of what you were given. {_AGAIN}"
        return NoAnswer("its reply repeated a part of the prompt", hint)
    if _announced(prompt) == text:
        return NoAnswer(
            "its reply repeated the one before", f"Your last reply repeated the one before. {_AGAIN}"
        )
    name = next((each for each in _called(text) if each in callables), None)
    if name is None:
        return None
    hint = (
        f"Your last reply was a call of {name} written as text, and nothing ran. Write it as a tool call, "
        "not as text. If this JSON is the answer, put a sentence before it."
    )
    return NoAnswer("its reply was a tool call written as text, which nothing runs", hint, ADVICE)


def _announced(prompt: Sequence[BaseMessage]) -> str:
    """Return what the model said beside its newest calls, where their results are the end of the prompt."""
    newest = next((each for each in reversed(prompt) if not isinstance(each, ToolMessage)), None)
    return str(newest.text).strip() if isinstance(newest, AIMessage) else ""


def _called(text: str) -> list[str]:
    """Return the names that a text calls, where it is nothing but calls in the marks of a template."""
    if found := _FUNCTION.match(text):
        return [found["name"]]
    names = []
    rest = _MARK.sub("", text).strip()
    while rest:
        written, rest = _first_value(rest)
        names += [_name_in(each) for each in (written if isinstance(written, list) else [written])]
    return names if all(names) else []


def _first_value(text: str) -> tuple[Any, str]:
    """Return the JSON that a text begins with, and what follows; braces may be doubled, as in a template."""
    for written in (text, text.replace("{{", "{").replace("}}", "}")):
        with suppress(ValueError, RecursionError):
            value, end = _DECODER.raw_decode(written)
            return value, written[end:].lstrip()
    return None, ""


def _name_in(written: Any) -> str:
    if isinstance(written, dict) and isinstance(written.get("function"), dict):
        written = written["function"]
    if not isinstance(written, dict):
        return ""
    name, arguments = written.get("name"), [written[each] for each in _ARGUMENTS if each in written]
    is_call = isinstance(name, str) and len(arguments) == 1 and isinstance(arguments[0], dict)
    return str(name) if is_call else ""
