"""Prompts as the agent renders them, built for one decision of the offline model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from skills_agent.graph.models import OfflineChatModel
from skills_agent.nodes import prompt
from skills_agent.skills.library.resources import resource_type
from skills_agent.skills.scripts import ScriptResult, describe
from skills_agent.state.records import LoadedSkill, ResourceRecord, SkillResources

CATALOG = {
    "heat-map": "Draw a heat map of temperatures. Use for weather grids.",
    "ledger-audit": "Audit an accounting ledger: balance, duplicates, gaps in CSV exports.",
    "poem-coach": "Review a poem for rhythm, rhyme and images.",
}
AUDIT = (
    "# Ledger audit\n\n```bash\npython scripts/audit.py FILE [--group-by COLUMN] [--top N] [--json]\n```\n"
)
NOTE = "not a language model"
"""What every answer says."""
TOOLS = ("load_skill", "search_skills", "read_resource", "run_script", "read_file")


@dataclass
class Conversation:
    """A thread, seen by the model; every method adds what the agent would have added."""

    catalog: Mapping[str, str] = field(default_factory=dict)
    tools: Sequence[str] = TOOLS
    omitted: int = 0
    status: str = "<status>\nLeft in this turn: 9 model calls.\n</status>"
    transcript: list[AnyMessage] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=count)

    def says(self, text: str | list[str | dict[str, Any]]) -> "Conversation":
        """Add a request."""
        self.transcript.append(HumanMessage(text))
        return self

    def loaded(self, name: str, instructions: str, *files: str, synthetic: bool = False) -> "Conversation":
        """Add a loaded skill, its receipt expanded; `synthetic` when not the model asked for it."""
        skill = cast("LoadedSkill", {"name": name, "source": "project", "instructions": instructions})
        records = [ResourceRecord(path=path, type=resource_type(path), size=100) for path in files]
        text = prompt.skill_text(skill, SkillResources(order=1, files=records, omitted=0))
        return self.answered(
            "load_skill", {"name": name}, f"Loaded {name}: 3 lines.\n{text}", synthetic=synthetic
        )

    def ran(
        self, *args: str, path: str, skill: str, code: int = 0, out: str = "", err: str = ""
    ) -> "Conversation":
        """Add a run of a script."""
        result = ScriptResult(
            code, out, err, 0.1, stopped=None, stdout_cut=0, stderr_cut=0, level="controlled"
        )
        return self.answered(
            "run_script", {"skill": skill, "path": path, "args": list(args)}, describe(result)
        )

    def answered(
        self, tool: str, args: dict[str, Any], text: str, *, refused: bool = False, synthetic: bool = False
    ) -> "Conversation":
        """Add a call and its answer."""
        call_id = f"call-{next(self.ids)}"
        kwargs = {"skills_agent": {"synthetic": True}} if synthetic else {}
        call = {"name": tool, "args": args, "id": call_id}
        self.transcript += [
            AIMessage("", tool_calls=[call], additional_kwargs=kwargs),
            ToolMessage(text, tool_call_id=call_id, name=tool, status="error" if refused else "success"),
        ]
        return self

    @property
    def messages(self) -> list[AnyMessage]:
        """Return the whole prompt."""
        lines = [f"- {name}: {description}" for name, description in self.catalog.items()]
        if self.omitted:
            lines.append(f"[{len(lines)} of {len(lines) + self.omitted} skills shown.]")
        listing = "\n".join(["<available_skills>", *lines, "</available_skills>"])
        system = (
            f"{prompt.INSTRUCTIONS}\n\n{prompt.SKILLS}\n\n{listing}" if self.catalog else prompt.INSTRUCTIONS
        )
        return [SystemMessage(system), *self.transcript, HumanMessage(self.status)]

    def reply(self) -> AIMessage:
        """Ask the offline model."""
        schemas = [
            {"type": "function", "function": {"name": name, "description": name, "parameters": {}}}
            for name in self.tools
        ]
        model = OfflineChatModel()
        bound = model.bind_tools(schemas) if schemas else model
        reply = bound.invoke(self.messages)
        assert isinstance(reply, AIMessage)
        return reply

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the tools that it calls."""
        return [(call["name"], call["args"]) for call in self.reply().tool_calls]

    @property
    def args(self) -> list[str]:
        """Return the arguments of the one script that it runs."""
        ((name, args),) = self.calls
        assert name == "run_script"
        passed: list[str] = args["args"]
        return passed

    @property
    def answer(self) -> str:
        """Return its answer; it must not call anything then."""
        reply = self.reply()
        assert not reply.tool_calls
        return str(reply.text)


def audited(request: str, instructions: str = AUDIT, *files: str) -> Conversation:
    """Return a conversation in which the skill ledger-audit was loaded for a request."""
    conversation = Conversation(CATALOG).says(request)
    return conversation.loaded("ledger-audit", instructions, *(files or ("scripts/audit.py",)))
