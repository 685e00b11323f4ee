"""The progress of an invocation: a line for each event, and on a terminal what goes on."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langgraph.runtime import RunControl
from langgraph.types import StreamMode
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skills_agent.graph.audit import events
from skills_agent.graph.audit.node_events import merge_updates
from skills_agent.graph.audit.recorder import PREFIX
from skills_agent.graph.cli.printing import is_terminal, line_of, shown
from skills_agent.nodes.fork import label_of
from skills_agent.skills.text import count
from skills_agent.state.records import VerdictRecord

NODE_COLUMN: Final = 9
MAX_LINE: Final = 400
"""Characters of what is said of an event; a refusal is never cut."""
CALL_WIDTH: Final = 120
"""Characters of a call, beside what came of it."""
SPEECH_LINES: Final = 12
"""Of a long answer the end is shown while it comes in; it is printed whole when it is complete."""

_IN_PROGRESS: Final = frozenset({"call_started", "approval_asked"})
"""Events without a line: the one is shown as what is being done, the other is asked below."""
_TOLD: Final = _IN_PROGRESS | {
    "run_started", "run_resumed", "run_failed", "run_ended", "model_called", "call_judged",
    "approval_answered", "call_ended", "resource_read", "step_ended", "hook_ran",
}  # fmt: skip
"""Events of which a person hears otherwise: by the line of an action, a question, an answer or an error."""


class Progress:
    """Follows the streams of a thread: prints one line an action, and gathers the verdicts of its turn.

    On a terminal, what is being done and the newest words of the model stand below, beside a spinner.
    """

    def __init__(self, verdicts: Mapping[str, VerdictRecord], *, quiet: bool = False) -> None:
        """Print nothing at all where it is quiet, for machines."""
        self.verdicts = dict(verdicts)
        """The last one on every call, by its id."""
        self.has_said = False
        """Whether a line was printed."""
        self.steps = 0
        """How many have ended."""
        self._console = Console(highlight=False, quiet=quiet)
        self.is_verbose = False
        """Whether each event has a line."""
        self._is_shown = is_terminal() and not quiet
        self._work = Text()
        self._speech = ""
        self._control = RunControl()
        self._forks = dict[str, str]()
        """What each fork is for, by the id of its task."""
        self._path = ""
        """Of the fork that a part of the stream is of."""

    def __rich__(self) -> Text:
        """Return what stands beside the spinner."""
        lines = shown(self._speech, "prose").splitlines()[-SPEECH_LINES:]
        work = Text("stopping (once more: leave now)") if self._control.drain_requested else self._work
        return Text("\n").join([work, *(Text(line, style="dim") for line in lines)])

    @property
    def modes(self) -> list[StreamMode]:
        """Return what is to be streamed."""
        return ["custom", "updates", "messages", "tasks"]

    def spinner(self, control: RunControl) -> AbstractContextManager[object]:
        """Show the spinner while a block runs, where a person can see it, and nothing of an earlier one.

        `control` says whether a signal stops what is going on.
        """
        self._speech, self._control = "", control
        return self._console.status(self) if self._is_shown else nullcontext()

    def follow(self, parts: Iterable[Mapping[str, Any]]) -> None:
        """Follow a stream (LangGraph's v2 form) to its end."""
        for part in parts:
            self._take(part)

    def _take(self, part: Mapping[str, Any]) -> None:
        content = part["data"]
        self._path = " > ".join(self._forks.get(place.rpartition(":")[2], "fork") for place in part["ns"])
        match part["type"]:
            case "messages" if part["ns"]:
                pass  # A fork speaks to the thread around it.
            case "messages":
                message, metadata = content
                is_speech = metadata.get("langgraph_node") in {"decide", "answer"}
                if is_speech and isinstance(message, AIMessageChunk):
                    self._speech += str(message.text)
            case "tasks" if "input" in content:
                if content["name"] == "fork":
                    self._forks[content["id"]] = label_of(content["input"])
                work = line_of(_work_of(content["name"], content["input"]), self._room())
                self._work = Text.assemble((content["name"], "cyan"), "  ", work)
            case "custom" if isinstance(content, dict):
                self._show_event(content)
            case "updates" if not content.get("__metadata__", {}).get("cached"):
                self.steps += not part["ns"]
                for node, change in content.items():
                    self._take_update(node, merge_updates(change))

    def say(self, node: str, line: str, limit: int | None = MAX_LINE) -> None:
        """Say what was done. The text is untrusted."""
        self._speech = ""
        self._print(node, line_of(line, limit), f"{self._path}: " if self._path else "")

    def _show_output(self, event: Mapping[str, Any]) -> None:
        """Print what a program prints, line by line; the text is untrusted."""
        skipped = f"[{event.get('skipped'):,} characters skipped]" if event.get("skipped") else ""
        of = f"{event['command']} " if event.get("command") else ""
        for each in filter(None, [skipped, *str(event.get("output")).splitlines()]):
            self._print(str(event.get("node") or ""), line_of(each, MAX_LINE), f"{of}| ")

    def _print(self, node: str, line: str, before: str = "") -> None:
        """Print a line behind the name of a node; on a terminal it is wrapped between words."""
        self.has_said = True
        if not self._console.is_terminal:
            self._console.print(Text(f"{node:<{NODE_COLUMN}} {before}{line}"), soft_wrap=True)
            return
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_column(width=NODE_COLUMN, style="bold cyan", no_wrap=True)
        row.add_row(node, Text(before + line, style="dim" if before else ""))
        self._console.print(row)

    def _room(self) -> int:
        return max(self._console.width - NODE_COLUMN - 4, 20)

    def _show_event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type"))  # a host's tools stream what they like
        name = kind.removeprefix(PREFIX)
        if name == kind:
            return
        if name == "call_output":
            self._show_output(event)
        elif name == "model_awaited" and self._is_shown:
            self._work = Text(line_of(events.line_of({**event, "type": name}), self._room()))
        elif name == "call_judged" and event.get("decision") == "deny":
            call = events.call_text(event["tool"], event["args"], CALL_WIDTH)
            self.say(event["node"], f"refused: {event['reason']} ({call})", None)
        elif self._has_line(name, event):
            self.say(str(event["node"]), events.line_of({**event, "type": name}))

    def _has_line(self, name: str, event: Mapping[str, Any]) -> bool:
        # What a person should know as a turn begins: there are no skills, or broken ones.
        is_news = name == "run_started" and (event.get("problems") or not event.get("known"))
        is_news = is_news or event.get("denied")  # by a hook
        return bool(is_news) or name not in (_IN_PROGRESS if self.is_verbose else _TOLD)

    def _take_update(self, node: str, update: Mapping[str, Any]) -> None:
        if node in {"gate", "approve"}:
            self.verdicts.update(update.get("verdicts") or {})
        for message in update.get("messages", []):
            match node, message:
                case "decide", AIMessage(tool_calls=[_, *_]) if self._is_shown:
                    # It stays, as the question is about these calls, and is marked: no line passes for ours.
                    self._quote(str(message.text), f"{'':<{NODE_COLUMN}} | ", "")
                case "act", ToolMessage():
                    self._say_result(message)

    def _say_result(self, message: ToolMessage) -> None:
        """Say what came of a call, as it was judged: after an edit with other arguments than the model's."""
        call, text = message.name or "", str(message.text)
        if judged := self.verdicts.get(message.tool_call_id):
            call = events.call_text(judged["tool"], judged["args"], CALL_WIDTH)
            if judged["reason"] == "edited":
                call, text = f"{call}, as edited", text.partition("\n")[2] or text  # not the note
        self.say("act", f"{call}: {excerpt(text) or 'no output'}")

    def stop(self) -> None:
        """Print what the model had said when it was stopped."""
        self._quote(self._speech, "", "dim")
        self._speech = ""

    def _quote(self, text: str, mark: str, style: str) -> None:
        for line in shown(text.strip(), "prose").splitlines():
            for part in Text(line).wrap(self._console, self._room()):
                self._console.print(Text(mark) + part, style=style, soft_wrap=True)


def excerpt(text: str) -> str:
    """Return the first line of a text, and how many follow."""
    first, *more = [line.strip(" \t\r") for line in text.split("\n") if line.strip()] or [""]
    return f"{first} (+{count(len(more), 'line')})" if more else first


def _work_of(node: str, task_input: Any) -> str:
    if node == "act" and isinstance(task_input, Mapping) and "call" in task_input:
        return events.call_text(task_input["call"]["name"], task_input["call"]["args"])
    return ""
