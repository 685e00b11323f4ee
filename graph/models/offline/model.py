"""What the offline model does next."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from typing_extensions import override

from skills_agent.graph.models.local import LocalChatModel, fingerprint
from skills_agent.graph.models.offline import answers
from skills_agent.graph.models.offline.answers import ToolResult
from skills_agent.graph.models.offline.message import PersonMessage, read_message, words
from skills_agent.graph.models.offline.usage import Usage, fill, find_usages
from skills_agent.nodes.model_call import PromptRecords
from skills_agent.nodes.prompt import ShownSkills, instructions_of
from skills_agent.skills.search.words import search_texts
from skills_agent.state.records import LoadedSkill, active_skills
from skills_agent.state.transcript import edited_args, is_synthetic

ASKS_FOR = "asks_for"
"""In the metadata of an answer: the places of a command that it asks the person for."""
_SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".rb", ".pl", ".ts")


class OfflineChatModel(LocalChatModel):
    """A chat model without a language model: rules that find a skill, run its script and quote the result.

    What a command needs and the message does not name, it asks for. Each answer says where it comes from.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    @override
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: PromptRecords | None
    ) -> AIMessage:
        """Return the next tool calls, or the answer."""
        transcript = records.messages if records else messages
        reply = _Turn(transcript, records.skills if records else None, tools).next_message()
        mark = fingerprint(messages)
        calls = [{**call, "id": f"offline-{mark}-{index}"} for index, call in enumerate(reply.tool_calls)]
        return reply.model_copy(update={"id": f"offline-{mark}", "tool_calls": calls})


@dataclass
class _Turn:
    """The newest message of a person and what was done for it."""

    transcript: Sequence[BaseMessage]
    shown: ShownSkills | None
    tools: frozenset[str]

    def next_message(self) -> AIMessage:
        """Return the answer, or the tools to call. It never calls for the same thing twice."""
        if runs := self._results("run_script"):
            return AIMessage(answers.tell_run(runs[-1]))
        name = self._choose_skill()
        loaded = [str(each.args.get("name")).partition("@")[0] for each in self._results("load_skill")]
        if loaded and name not in loaded:
            name = loaded[0]
        if name is None:
            return AIMessage(answers.tell_no_skill_fits(self.shown and self.shown.catalog.listing))
        return self._use(self._ledger[name]) if name in self._ledger else self._load(name)

    def _load(self, name: str) -> AIMessage:
        refused = self._results("load_skill")
        if not refused and "load_skill" in self.tools:
            return _call("load_skill", {"name": name})
        reason = refused[-1].message.text if refused else "no tool to load skills is offered here."
        return AIMessage(answers.tell_not_loaded(name, reason))

    @cached_property
    def message(self) -> PersonMessage:
        """The newest message; where it answers a question of ours, together with the message before."""
        return self._read(self.transcript)

    def _read(self, messages: Sequence[BaseMessage]) -> PersonMessage:
        newest = max((index for index, each in enumerate(messages) if _is_of_person(each)), default=None)
        if newest is None:
            return PersonMessage(())
        message = read_message(messages[newest].text, self._ledger)
        before = messages[:newest]
        places = before[-1].response_metadata.get(ASKS_FOR) if before else None
        return message.answering(self._read(before), places) if places else message

    @cached_property
    def _ledger(self) -> dict[str, LoadedSkill]:
        return active_skills(self.shown.ledger) if self.shown else {}

    def _results(self, tool: str) -> list[ToolResult]:
        calls: dict[str | None, dict[str, Any]] = {}
        results: list[ToolResult] = []
        for message in self.transcript:
            if _is_of_person(message):
                results = []
            elif isinstance(message, AIMessage):
                calls |= {call["id"]: call["args"] for call in message.tool_calls}
            elif isinstance(message, ToolMessage) and message.name == tool:
                args = edited_args(message) or calls.get(message.tool_call_id, {})
                results.append(ToolResult(args, message))
        return results

    def _choose_skill(self) -> str | None:
        """Return the skill that fits the message, or is the best and named after the kind of file it names.

        A kind of file that no skill has can only help: without it, fewer words are unknown.
        """
        if self.shown is None:
            return None
        message, catalog, left_out = self.message, self.shown.complete, self.shown.left_out
        for query in dict.fromkeys((message.query, message.words)):
            if fitting := catalog.fitting(query, left_out):
                return fitting[0].name
        best = next((hit.skill for hit in catalog.search(message.query, 1)), None)
        is_named = best and best.model_invocable and not set(words(best.name)).isdisjoint(message.extensions)
        return best.name if best and is_named and best.name not in left_out else None

    def _use(self, skill: LoadedSkill) -> AIMessage:
        name = skill["name"]
        instructions = instructions_of(skill)
        usage = self._choose_usage(find_usages(instructions, self._scripts_of(name)))
        if usage is None:
            return AIMessage(answers.tell_instructions(name, instructions))
        args, missing = fill(usage, self.message)
        if missing:
            text = answers.ask_for(name, usage.command, missing)
            return AIMessage(text, response_metadata={ASKS_FOR: missing})
        if "run_script" not in self.tools:
            return AIMessage(answers.tell_call(name, [usage.script, *args]))
        return _call("run_script", {"skill": name, "path": usage.script, "args": args})

    def _scripts_of(self, skill: str) -> list[str]:
        resources = self.shown.resources.get(skill) if self.shown else None
        files = resources["files"] if resources else []
        return [file["path"] for file in files if file["type"] == "script" or file["path"].endswith(_SCRIPTS)]

    def _choose_usage(self, usages: Sequence[Usage]) -> Usage | None:
        contexts: dict[str, str] = {}
        # Where commands are shown, a script that is only named is a part of another one, or a text to read.
        usages = [usage for usage in usages if " " in usage.command] or usages
        for usage in usages:
            contexts[usage.script] = f"{contexts.get(usage.script, usage.script)} {usage.context}"
        ranked = search_texts([*contexts.items()], self.message.query, 1) if len(contexts) > 1 else []
        script = ranked[0][0] if ranked else next(iter(contexts), None)
        return min((usage for usage in usages if usage.script == script), key=self._rank, default=None)

    def _rank(self, usage: Usage) -> tuple[bool, bool, int]:
        fixed = {part.value for part in usage.parts if not part.flag and not part.stands_in}
        # Fixed words count against a command where the message does not say them.
        lacking = len(fixed.difference(self.message.of("word"))) + len(fill(usage, self.message).missing)
        return not usage.parts, not usage.is_synopsis, lacking


def _is_of_person(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and not is_synthetic(message)


def _call(tool: str, args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[tool_call(name=tool, args=args, id=None)])
