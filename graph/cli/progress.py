"""The progress of an invocation: a line for each event, and on a terminal what goes on."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langgraph.types import StreamMode
from rich.console import Console
from rich.text import Text

from skills_agent.graph.audit import events
from skills_agent.graph.audit.node_events import merge_updates
from skills_agent.graph.audit.recorder import PREFIX
from skills_agent.graph.cli.printing import is_terminal, line_of, shown
from skills_agent.skills.text import count
from skills_agent.state.records import VerdictRecord
from skills_agent.state.transcript import outcome_of

STREAM_MODES: Final[tuple[StreamMode, ...]] = ("tasks", "custom", "updates", "messages")
NODE_COLUMN: Final = 9
MAX_LINE: Final = 200
SPEECH_LINES: Final = 12
"""Of a long answer the end is shown while it comes in; it is printed whole when it is complete."""

_IN_PROGRESS: Final = frozenset({"call_started", "approval_asked"})
"""Events without a line: the one is shown as what is being done, the other is asked below."""


class Progress:
    """Follows the stream of one invocation: prints one line an event, and gathers `verdicts` by call.

    On a terminal, what is being done and the newest words of the model stand below, beside a spinner.
    """

    def __init__(self, verdicts: dict[str, VerdictRecord], *, quiet: bool = False) -> None:
        """Print nothing at all where it is quiet, for machines."""
        self._verdicts = verdicts
        self._console = Console(highlight=False, quiet=quiet)
        self._work = Text()
        self._speech = ""

    def __rich__(self) -> Text:
        """Return what stands beside the spinner."""
        lines = shown(self._speech, "prose").splitlines()[-SPEECH_LINES:]
        return Text("\n").join([self._work, *(Text(line, style="dim") for line in lines)])

    def spinner(self) -> AbstractContextManager[object]:
        """Show the spinner while a block runs, where a person can see it."""
        is_shown = is_terminal() and not self._console.quiet
        return self._console.status(self) if is_shown else nullcontext()

    def take(self, part: Mapping[str, Any]) -> None:
        """Follow one part of the stream (LangGraph's v2 form)."""
        content = part["data"]
        match part["type"]:
            case "messages":
                message, metadata = content
                is_speech = metadata.get("langgraph_node") in {"decide", "answer"}
                if is_speech and isinstance(message, AIMessageChunk):
                    self._speech += str(message.text)
            case "tasks" if "input" in content:
                work = line_of(_work_of(content["name"], content["input"]), self._room())
                self._work = Text.assemble((content["name"], "cyan"), "  ", work)
            case "custom" if isinstance(content, dict):
                self._show_event(content)
            case "updates" if not content.get("__metadata__", {}).get("cached"):
                for node, change in content.items():
                    self._take_update(node, merge_updates(change))

    def did(self, node: str, text: str) -> None:
        """Say what was done. The text is untrusted."""
        self._speech = ""
        room = self._room() if self._console.is_terminal else MAX_LINE
        line = Text.assemble((f"{node:<{NODE_COLUMN}} ", "bold cyan"), line_of(text, room))
        self._console.print(line, soft_wrap=True)

    def _show_output(self, event: Mapping[str, Any]) -> None:
        """Print what a program prints, line by line; the text is untrusted."""
        head = f"{event.get('node') or '':<{NODE_COLUMN}} "
        skipped = f"[{event.get('skipped'):,} characters skipped]" if event.get("skipped") else ""
        of = f"{event['command']} " if event.get("command") else ""
        for each in filter(None, [skipped, *str(event.get("output")).splitlines()]):
            room = (self._room() if self._console.is_terminal else MAX_LINE) - len(of) - 2
            line = Text.assemble((head, "bold cyan"), (f"{of}| ", "dim"), (line_of(each, room), "dim"))
            self._console.print(line, soft_wrap=True)

    def _room(self) -> int:
        return max(self._console.width - NODE_COLUMN - 4, 20)

    def _show_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type"))  # a host's tools stream what they like
        name = kind.removeprefix(PREFIX)
        if name == "call_output" and name != kind:
            self._show_output(event)
        elif name != kind and name not in _IN_PROGRESS:
            self.did(str(event["node"]), events.line_of({**event, "type": name}))

    def _keep_words(self, message: object) -> None:
        """Leave on the screen what the model said beside its calls: the question is about these."""
        if isinstance(message, AIMessage) and message.tool_calls and str(message.text).strip():
            for line in shown(str(message.text).strip(), "prose").splitlines():
                # Each line is marked: none can pass for a question of ours.
                self._console.print(Text.assemble((f"{'':<{NODE_COLUMN}} | ", "dim"), line), soft_wrap=True)

    def _take_update(self, node: str, update: Mapping[str, Any]) -> None:
        for message in update.get("messages", []) if node == "decide" and is_terminal() else []:
            self._keep_words(message)
        if node in {"gate", "approve"}:
            self._verdicts.update(update.get("verdicts") or {})
        for message in update.get("messages", []) if node == "act" else []:
            # The event of a failed call has its text, but for a program's, which may be long.
            if isinstance(message, ToolMessage) and (message.status != "error" or outcome_of(message)):
                self.did(node, f"{message.name}: {excerpt(str(message.text)) or 'no output'}")


def excerpt(text: str) -> str:
    """Return the first line of a text, and how many follow."""
    first, *more = [line.strip(" \t\r") for line in text.split("\n") if line.strip()] or [""]
    return f"{first} (+{count(len(more), 'line')})" if more else first


def _work_of(node: str, task_input: Any) -> str:
    if node == "act" and isinstance(task_input, Mapping) and "call" in task_input:
        return events.call_text(task_input["call"]["name"], task_input["call"]["args"])
    return ""
