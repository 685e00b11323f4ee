"""The progress of an invocation: a line for each event, and on a terminal what goes on."""

from collections.abc import Iterable, Mapping
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
from skills_agent.skills.text import count, cut
from skills_agent.state.records import VerdictRecord
from skills_agent.state.transcript import outcome_of

NODE_COLUMN: Final = 9
MAX_LINE: Final = 200
SPEECH_LINES: Final = 12
"""Of a long answer the end is shown while it comes in; it is printed whole when it is complete."""

_IN_PROGRESS: Final = frozenset({"call_started", "approval_asked"})
"""Events without a line: the one is shown as what is being done, the other is asked below."""


class Progress:
    """Follows the streams of a thread: prints one line an event, and gathers the verdicts of its turn.

    On a terminal, what is being done and the newest words of the model stand below, beside a spinner.
    """

    def __init__(self, verdicts: Mapping[str, VerdictRecord], *, quiet: bool = False) -> None:
        """Print nothing at all where it is quiet, for machines."""
        self.verdicts = dict(verdicts)
        """The last one on every call, by its id."""
        self.steps = 0
        """How many have ended."""
        self._console = Console(highlight=False, quiet=quiet)
        self._is_terminal = is_terminal()
        self._is_shown = self._is_terminal and not quiet
        self._work = Text()
        self._speech = ""

    def __rich__(self) -> Text:
        """Return what stands beside the spinner."""
        lines = shown(self._speech, "prose").splitlines()[-SPEECH_LINES:]
        return Text("\n").join([self._work, *(Text(line, style="dim") for line in lines)])

    @property
    def modes(self) -> list[StreamMode]:
        """Return what is to be streamed: that work begins only where a person can see the spinner."""
        modes: list[StreamMode] = ["custom", "updates", "messages"]
        return [*modes, "tasks"] if self._is_shown else modes

    def spinner(self) -> AbstractContextManager[object]:
        """Show the spinner while a block runs, where a person can see it."""
        return self._console.status(self) if self._is_shown else nullcontext()

    def follow(self, parts: Iterable[Mapping[str, Any]]) -> None:
        """Follow a stream (LangGraph's v2 form) to its end."""
        for part in parts:
            self._take(part)

    def _take(self, part: Mapping[str, Any]) -> None:
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
                self.steps += 1
                for node, change in content.items():
                    self._take_update(node, merge_updates(change))

    def did(self, node: str, text: str) -> None:
        """Say what was done. The text is untrusted."""
        self._say(node, line_of(text))

    def _say(self, node: str, line: str) -> None:
        self._speech = ""
        self._print(node, line)

    def _show_output(self, event: Mapping[str, Any]) -> None:
        """Print what a program prints, line by line; the text is untrusted."""
        skipped = f"[{event.get('skipped'):,} characters skipped]" if event.get("skipped") else ""
        of = f"{event['command']} " if event.get("command") else ""
        for each in filter(None, [skipped, *str(event.get("output")).splitlines()]):
            self._print(str(event.get("node") or ""), line_of(each), f"{of}| ")

    def _print(self, node: str, line: str, before: str = "") -> None:
        """Print a line, in which nothing is hidden."""
        room = (self._room() if self._console.is_terminal else MAX_LINE) - len(before)
        work = Text(cut(line, room), style="dim" if before else "")
        head = Text.assemble((f"{node:<{NODE_COLUMN}} ", "bold cyan"), (before, "dim"), work)
        self._console.print(head, soft_wrap=True)

    def _room(self) -> int:
        return max(self._console.width - NODE_COLUMN - 4, 20)

    def _show_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type"))  # a host's tools stream what they like
        name = kind.removeprefix(PREFIX)
        if name == kind or name in _IN_PROGRESS:
            return
        if name == "call_output":
            self._show_output(event)
        else:
            self._say(str(event["node"]), events.line_of({**event, "type": name}))

    def _take_update(self, node: str, update: Mapping[str, Any]) -> None:
        if node in {"gate", "approve"}:
            self.verdicts.update(update.get("verdicts") or {})
        for message in update.get("messages", []):
            if (
                node == "decide"
                and self._is_terminal
                and isinstance(message, AIMessage)
                and message.tool_calls
            ):
                # What the model said beside its calls stays: the question is about these. Each line is
                # marked: none can pass for a question of ours.
                for line in shown(str(message.text).strip(), "prose").splitlines():
                    self._console.print(Text(f"{'':<{NODE_COLUMN}} | {line}"), soft_wrap=True)
            # The event of a failed call has its text, but for a program's, which may be long.
            is_result = node == "act" and isinstance(message, ToolMessage)
            if is_result and (message.status != "error" or outcome_of(message)):
                self.did(node, f"{message.name}: {excerpt(str(message.text)) or 'no output'}")


def excerpt(text: str) -> str:
    """Return the first line of a text, and how many follow."""
    first, *more = [line.strip(" \t\r") for line in text.split("\n") if line.strip()] or [""]
    return f"{first} (+{count(len(more), 'line')})" if more else first


def _work_of(node: str, task_input: Any) -> str:
    if node == "act" and isinstance(task_input, Mapping) and "call" in task_input:
        return events.call_text(task_input["call"]["name"], task_input["call"]["args"])
    return ""
