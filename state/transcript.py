"""Questions about the transcript, as pure functions of its messages."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
)
from langchain_core.messages.tool import ToolCall, tool_call

from skills_agent.state.budget import MAX_SAME_REFUSALS
from skills_agent.state.call_ids import all_calls, with_new_ids
from skills_agent.state.records import Ledger

LOAD_SKILL = "load_skill"
UNLOAD_SKILL = "unload_skill"
_PATHS: Final = ("path", "file_path")
"""Arguments that name a file, here and in other agents."""
UNLOAD: Final = "unload"
UNLOAD_COMMAND: Final = re.compile(r"\s*/unload(?:[ \t]+(?P<name>[^\s/]+))?(?=\s|$)")
"""What a person begins a message with to unload a skill; a skill of that name keeps its own command."""
SEARCH_SKILLS = "search_skills"
UPDATE_PLAN = "update_plan"
_MARKS: Final = ("://", "www.", ".com", ".org", ".net", ".io", ".dev")
_ADDRESS: Final = re.compile(r"://|\bwww\.|\.(?:com|org|net|io|dev)\b")
"""What every address of the web has one of, in lower case, and where a text has it indeed."""
SYNTHETIC = {"skills_agent": {"synthetic": True}}
"""Marks a message that neither a model nor a person wrote: the AI message with the calls for skills that
the user or the caller named, a summary."""

ANSWER_LOST = "Whether this ran is not known: another call of its message had the same id, and its answer."


def marks_of(message: BaseMessage) -> Mapping[str, Any]:
    """Return what the agent noted in a message; a client may have written anything there."""
    marks = message.additional_kwargs.get("skills_agent")
    return marks if isinstance(marks, dict) else {}


def note_of(message: AIMessage) -> str:
    """Return what the agent said to the model at the end of the message that this reply answers."""
    note = marks_of(message).get("note")
    return note if isinstance(note, str) else ""


def with_note(message: AIMessage, note: str) -> AIMessage:
    """Return a reply that keeps the note which it was asked for with."""
    return with_marks(message, note=note) if note else message


def with_marks(message: AIMessage, **more: object) -> AIMessage:
    """Return a reply that keeps more of what the agent notes."""
    marks = {**marks_of(message), **more}
    return message.model_copy(
        update={"additional_kwargs": {**message.additional_kwargs, "skills_agent": marks}}
    )


def stands_in(messages: Sequence[AnyMessage]) -> bool:
    """Return whether a model that a skill names failed in this turn, so that the usual one took its place."""
    return any(marks_of(reply).get("stands_in") for reply in replies_of_turn(messages))


def has_address(system: str, ledger: Ledger, messages: Sequence[AnyMessage]) -> bool:
    """Return whether the operator, a loaded skill or a message names an address of the web.

    As with Claude's web fetch, a model does not make one up: a small real one did, for files that are here.
    """
    loaded = (each["instructions"] for each in (ledger or {}).values())
    texts = (text.lower() for text in (system, *loaded, *(str(message.text) for message in messages)))
    # The pattern alone takes five times as long, and a long thread has half a megabyte.
    return any(any(mark in text for mark in _MARKS) and _ADDRESS.search(text) for text in texts)


def outcome_of(message: BaseMessage) -> Mapping[str, Any]:
    """Return what is kept of a program that ran: its exit code (None: a limit ended it), the files it wrote.

    Empty where none ran: for what another tool returned, and for a refusal.
    """
    artifact = message.artifact if isinstance(message, ToolMessage) else None
    return artifact if isinstance(artifact, Mapping) and "exit_code" in artifact else {}


def edited_args(message: BaseMessage) -> Mapping[str, Any] | None:
    """Return the arguments that a person had a call run with; None where nobody changed it."""
    args = marks_of(message).get("edited")
    return args if isinstance(args, dict) else None


def said_of_unloading(messages: Sequence[AnyMessage]) -> str:
    """Return what came of `/unload NAME` where a person said nothing else; empty for any other transcript."""
    if len(messages) < 3 or not is_synthetic(messages[-2]):
        return ""
    human, result = messages[-3], messages[-1]
    is_alone = isinstance(human, HumanMessage) and str(human.text).lstrip().startswith("/unload")
    is_alone = is_alone and len(str(human.text).split()) <= 2
    is_of_unload = isinstance(result, ToolMessage) and result.name == UNLOAD_SKILL
    return str(result.text) if is_alone and is_of_unload else ""


def reused_since(message: AnyMessage) -> str:
    """Return the start of the earlier run whose result a tool message repeats; empty where the call ran."""
    return str(marks_of(message).get("reused", ""))


def in_call_order(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return messages with the answers to each AI message in the order of its calls.

    A prompt must not depend on the order in which parallel branches were stored. An answer to no call of
    its step is left out: providers refuse it, and a client may have had a call refused that nobody made.
    """
    ordered: list[AnyMessage] = []
    order: dict[str | None, int] = {}
    for is_answer, group in groupby(messages, lambda each: isinstance(each, ToolMessage)):
        part = list(group)
        if is_answer:
            answers = [each for each in part if isinstance(each, ToolMessage) and each.tool_call_id in order]
            part = [*sorted(answers, key=lambda each: order[each.tool_call_id])]
        elif newest := last_ai(part):
            order = {call["id"]: index for index, call in enumerate(all_calls(newest))}
        ordered += part
    return ordered


def has_background_commands(messages: Sequence[AnyMessage]) -> bool:
    """Return whether the transcript has a call that starts a command in the background."""
    return any(call["args"].get("background") for call in calls_in(messages))


def last_ai(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """Return the newest AI message."""
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)


def replies_of_turn(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    """Return the AI messages since the newest human one, the newest first."""
    turn = takewhile(lambda each: not isinstance(each, HumanMessage), reversed(messages))
    return [message for message in turn if isinstance(message, AIMessage)]


def last_human(messages: Sequence[AnyMessage]) -> HumanMessage | None:
    """Return the newest human message."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def typed_text(message: HumanMessage) -> str:
    """Return what a person typed: the first text of a message. What follows is attached to it."""
    if isinstance(message.content, str):
        return message.content
    texts = (each if isinstance(each, str) else each.get("text") for each in message.content)
    return next((text for text in texts if isinstance(text, str)), "")


def unload_command(messages: Sequence[AnyMessage], skills: Container[str]) -> re.Match[str] | None:
    """Return the command to unload that a person's newest message begins with.

    None where there is none, or a skill of that name.
    """
    human = last_human(messages)
    command = UNLOAD_COMMAND.match(typed_text(human)) if human else None
    return command if command and UNLOAD not in skills else None


def is_synthetic(message: AnyMessage) -> bool:
    """Return True if the agent wrote a message itself."""
    return bool(marks_of(message).get("synthetic"))


def calls_of(message: AIMessage) -> list[ToolCall]:
    """Return the tool calls of a message that carry an id, whole ones only."""
    return [call for call in message.tool_calls if call["id"]]


def unreadable_calls_of(message: AIMessage) -> list[InvalidToolCall]:
    """Return the tool calls whose arguments are no JSON: providers want an answer to these, too."""
    return [call for call in message.invalid_tool_calls if call["id"]]


def shown_calls_of(message: AIMessage) -> list[ToolCall]:
    """Return the calls of a message as a person is shown them: what cannot be read as the model wrote it."""
    unreadable = [
        tool_call(name=call["name"] or "", args={"arguments": call["args"] or ""}, id=call["id"])
        for call in unreadable_calls_of(message)
    ]
    return [*calls_of(message), *unreadable]


def calls_in(messages: Sequence[AnyMessage]) -> Iterator[ToolCall]:
    """Yield the calls of a transcript that can be read."""
    return (call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls)


def alike_calls(messages: Sequence[AnyMessage], call: ToolCall) -> list[str]:
    """Return the ids of the other calls of the transcript with the same tool and arguments."""
    alike = (
        each for each in calls_in(messages) if (each["name"], each["args"]) == (call["name"], call["args"])
    )
    return [each["id"] for each in alike if each["id"] and each["id"] != call["id"]]


def named_paths(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """Return the paths that calls of the transcript name, whatever became of them."""
    paths = (call["args"].get(name) for call in calls_in(messages) for name in _PATHS)
    return frozenset(path for path in paths if isinstance(path, str))


def same_results(
    messages: Sequence[AnyMessage], is_alike: Callable[[ToolCall], bool], changes: Callable[[str], bool]
) -> int:
    """Count the steps of this turn, from the newest back, whose call like one gave the same result.

    `changes` tells of a tool by its name whether a call of it may change what others find: no look goes
    behind one that succeeded. Calls alike in one step count once.
    """
    count, newest = 0, None
    for step in reversed(_steps_of_turn(messages)):
        ran = [(call, result) for call, result in step if not is_refusal(result)]
        same = [result for call, result in ran if is_alike(call)]
        newest = newest or next(iter(same), None)
        if any((each.status, each.content) != ("success", newest and newest.content) for each in same):
            break
        if any(
            changes(call["name"]) and not is_alike(call) and each.status == "success" for call, each in ran
        ):
            break
        count += bool(same)
    return count


def _steps_of_turn(messages: Sequence[AnyMessage]) -> list[list[tuple[ToolCall, ToolMessage]]]:
    """Return the calls of each AI message since the newest human one, with their results."""
    turn = [*takewhile(lambda each: not isinstance(each, HumanMessage), reversed(messages))][::-1]
    answers = zip(turn, answers_by_step(turn), strict=True)
    return [
        [(call, results[call["id"] or ""]) for call in calls_of(message) if call["id"] in results]
        for message, results in answers
        if isinstance(message, AIMessage)
    ]


def answered_ids(messages: Sequence[AnyMessage]) -> set[str]:
    """Return the ids of all tool calls that have their tool message."""
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def answers_by_step(messages: Sequence[AnyMessage]) -> list[dict[str, ToolMessage]]:
    """Return, for each message, the tool messages that stand between it and the next AI message, by call id.

    A thread of an earlier release may have one id for several calls: an answer is one within its step.
    """
    steps: list[dict[str, ToolMessage]] = []
    none: dict[str, ToolMessage] = {}
    answers: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            answers = {}
            steps.append(answers)
            continue
        steps.append(none)
        if isinstance(message, ToolMessage):
            answers[message.tool_call_id] = message
    return steps


def open_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Return the calls of the newest AI message that have no tool message yet, in its order."""
    message, answered = last_ai(messages), _newest_answers(messages)
    return [call for call in calls_of(message) if call["id"] not in answered] if message else []


def open_unreadable_calls(messages: Sequence[AnyMessage]) -> list[InvalidToolCall]:
    """Return the unreadable calls of the newest AI message that have no tool message yet."""
    message, answered = last_ai(messages), _newest_answers(messages)
    return [call for call in unreadable_calls_of(message) if call["id"] not in answered] if message else []


def _newest_answers(messages: Sequence[AnyMessage]) -> set[str]:
    return answered_ids([*takewhile(lambda each: not isinstance(each, AIMessage), reversed(messages))])


def wants_calls(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the newest AI message has calls without an answer."""
    return bool(open_calls(messages) or open_unreadable_calls(messages))


def wants_skills(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the newest AI message has calls of load_skill without an answer."""
    return any(call["name"] == LOAD_SKILL for call in open_calls(messages))


def newest_loads(messages: Sequence[AnyMessage]) -> set[str | None]:
    """Return the ids of the newest AI message's calls of load_skill."""
    message = last_ai(messages)
    return {call["id"] for call in message.tool_calls if call["name"] == LOAD_SKILL} if message else set()


def wants_tools(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the newest AI message has open calls other than for skills."""
    return bool(open_unreadable_calls(messages)) or any(
        call["name"] != LOAD_SKILL for call in open_calls(messages)
    )


def repair(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage] | None:
    """Return the transcript with every dangling tool call answered by `text` in its place.

    None when nothing dangles. A provider refuses a tool call that is not followed by its answer. It also
    refuses an id that it has seen, so calls of an earlier release get ids of their own.
    """
    known: set[str] = set()
    repaired: list[AnyMessage] = []
    dangling: list[AnyMessage] = []
    ids: dict[str, str] = {}
    for message, answers in zip(messages, answers_by_step(messages), strict=True):
        if dangling and not isinstance(message, ToolMessage):
            repaired.extend(dangling)
            dangling = []
        if isinstance(message, AIMessage):
            own = with_new_ids(message, known.__contains__)
            pairs = [*zip(all_calls(message), all_calls(own), strict=True)]
            ids = {old["id"] or "": new["id"] or "" for old, new in reversed(pairs)}
            known.update(ids, (new["id"] or "" for _, new in pairs))
            for old, new in pairs:
                old_id, new_id = old["id"] or "", new["id"] or ""
                if old_id not in answers:
                    dangling.append(refusal(new_id, new["name"] or "", text))
                elif ids[old_id] != new_id:
                    dangling.append(refusal(new_id, new["name"] or "", ANSWER_LOST))
            repaired.append(own)
        elif isinstance(message, ToolMessage):
            call_id = ids.get(message.tool_call_id, message.tool_call_id)
            is_same = call_id == message.tool_call_id
            repaired.append(message if is_same else message.model_copy(update={"tool_call_id": call_id}))
        else:
            repaired.append(message)
    repaired.extend(dangling)
    is_changed = any(new is not old for new, old in zip(repaired, messages, strict=False))
    return repaired if is_changed or len(repaired) > len(messages) else None


def receipt(call_id: str, tool: str, text: str) -> ToolMessage:
    """Return the tool message that says what a call for a skill did; its id derives from the call."""
    return ToolMessage(text, tool_call_id=call_id, name=tool, id=f"receipt-{call_id}")


def is_receipt(message: ToolMessage) -> bool:
    """Return whether a tool message says what a call for a skill did."""
    return message.id == f"receipt-{message.tool_call_id}"


def refusal(call_id: str, tool: str, text: str) -> ToolMessage:
    """Return the tool message that refuses one call; its id derives from the call: no second copy."""
    return ToolMessage(text, tool_call_id=call_id, name=tool, status="error", id=f"refused-{call_id}")


def is_refusal(message: ToolMessage) -> bool:
    """Return whether a tool message refuses its call."""
    return (message.id or "").startswith("refused-")


def refused_too_often(messages: Sequence[AnyMessage]) -> str | None:
    """Name the tool of the newest step's call that was refused again and again in this turn, or None.

    Calls alike in one step count once.
    """
    steps = [
        [(call["name"], call["args"]) for call, result in step if is_refusal(result)]
        for step in _steps_of_turn(messages)
    ]
    for call in steps[-1] if steps else ():
        if sum(call in step for step in steps) >= MAX_SAME_REFUSALS:
            return call[0]
    return None
