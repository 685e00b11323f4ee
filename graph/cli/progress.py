"""The progress of an invocation: a line for each event, on a terminal, in a pipe, or nowhere."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click
from langchain_core.messages import AIMessageChunk, ToolMessage
from langgraph.types import StreamMode
from rich.console import Console
from rich.text import Text
from typing_extensions import override

from skills_agent.graph.audit import events
from skills_agent.graph.audit.node_events import merge_updates
from skills_agent.graph.audit.recorder import PREFIX
from skills_agent.graph.cli.printing import count, is_terminal, line_of, strip_controls
from skills_agent.state.records import VerdictRecord

STREAM_MODES: Final[tuple[StreamMode, ...]] = ("tasks", "custom", "updates", "messages")
NODE_COLUMN: Final = 9
MAX_LINE: Final = 200
SPEECH_LINES: Final = 12
"""Of a long answer the end is shown while it comes in; it is printed whole when it is complete."""

_IN_PROGRESS: Final = frozenset({"call_started", "approval_asked"})
"""Events without a line: the one is shown as what is being done, the other is asked below."""
_WORK: Final = {
    "summarize": "summing up earlier turns",
    "decide": "asking the model",
    "answer": "the last word",
}


class Progress:
    """Follows the stream of one invocation: prints one line an event, and gathers `verdicts` by call."""

    def __init__(self, verdicts: dict[str, VerdictRecord], *, quiet: bool = False) -> None:
        """Print nothing at all where it is quiet, for machines."""
        self._verdicts = verdicts
        self._quiet = quiet

    def take(self, part: Mapping[str, Any]) -> None:
        """Follow one part of the stream (LangGraph's v2 form)."""
        content = part["data"]
        match part["type"]:
            case "messages":
                message, metadata = content
                is_speech = metadata.get("langgraph_node") in {"decide", "answer"}
                if is_speech and isinstance(message, AIMessageChunk):
                    self.token(str(message.text))
            case "tasks" if "input" in content:
                self.working(content["name"], _work_of(content["name"], content["input"]))
            case "custom" if isinstance(content, dict):
                self._show_event(content)
            case "updates" if not content.get("__metadata__", {}).get("cached"):
                for node, change in content.items():
                    self._take_update(node, merge_updates(change))

    def working(self, node: str, text: str) -> None:
        """Say what is being done now."""

    def did(self, node: str, text: str) -> None:
        """Say what was done. The text is untrusted."""
        if not self._quiet:
            click.echo(f"{node:<{NODE_COLUMN}} {line_of(text, MAX_LINE)}")

    def token(self, text: str) -> None:
        """Show a piece of what the model is saying; `did` ends it."""

    def _show_event(self, event: Mapping[str, Any]) -> None:
        """Show an event of the audit; tools of a host stream what they like."""
        kind = str(event.get("type"))
        name = kind.removeprefix(PREFIX)
        if name != kind and name not in _IN_PROGRESS:
            self.did(str(event["node"]), events.line_of({**event, "type": name}))

    def _take_update(self, node: str, update: Mapping[str, Any]) -> None:
        if node in {"gate", "approve"}:
            self._verdicts.update(update.get("verdicts") or {})
        for message in update.get("messages", []) if node == "act" else []:
            # The event of a failed call has its text.
            if isinstance(message, ToolMessage) and message.status != "error":
                self.did(node, f"{message.name}: {excerpt(str(message.text)) or 'no output'}")


def excerpt(text: str) -> str:
    """Return the first line of a text, and how many follow."""
    first, *more = [line for line in text.splitlines() if line.strip()] or [""]
    return f"{first.strip()} (+{count(len(more), 'line')})" if more else first.strip()


def _work_of(node: str, task_input: Any) -> str:
    if node == "act" and isinstance(task_input, Mapping) and "call" in task_input:
        return events.call_text(task_input["call"]["name"], task_input["call"]["args"])
    if node == "load" and isinstance(task_input, Mapping):
        return str(task_input["skills"][-1]["name"])  # what a skill requires stands before it
    return _WORK.get(node, "")


class Terminal(Progress):
    """Prints what was done, and keeps a spinner and the newest words of the model below."""

    def __init__(self, verdicts: dict[str, VerdictRecord], console: Console) -> None:
        super().__init__(verdicts)
        self._console = console
        self._work = Text()
        self._speech = ""

    def __rich__(self) -> Text:
        """Return what stands below the printed lines, beside the spinner."""
        lines = strip_controls(self._speech).splitlines()[-SPEECH_LINES:]
        return Text("\n").join([self._work, *(Text(line, style="dim") for line in lines)])

    @override
    def working(self, node: str, text: str) -> None:
        room = max(self._console.width - NODE_COLUMN - 4, 20)
        self._work = Text.assemble((node, "cyan"), "  ", line_of(text, room))

    @override
    def did(self, node: str, text: str) -> None:
        self._speech = ""
        room = max(self._console.width - NODE_COLUMN - 1, 20)
        line = Text.assemble((f"{node:<{NODE_COLUMN}} ", "bold cyan"), line_of(text, room))
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    @override
    def token(self, text: str) -> None:
        self._speech += text


@contextmanager
def open_progress(verdicts: dict[str, VerdictRecord], *, quiet: bool) -> Iterator[Progress]:
    """Show the progress of one invocation in the way that stdout can show it."""
    if quiet or not is_terminal():
        yield Progress(verdicts, quiet=quiet)
        return
    console = Console(highlight=False)
    progress = Terminal(verdicts, console)
    with console.status(progress):
        yield progress
