"""What the offline model does next."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import tool_call
from typing_extensions import override

from skills_agent.graph.models.local import LocalChatModel, fingerprint
from skills_agent.graph.models.offline import answers
from skills_agent.graph.models.offline.commands import find_usages
from skills_agent.graph.models.offline.filling import Call, Material, examples_in, fill, fits
from skills_agent.graph.models.offline.prompt import Result, Situation, Skill, exit_code, read, was_run
from skills_agent.graph.models.offline.request import Request, read_request
from skills_agent.graph.models.offline.retry import corrected
from skills_agent.graph.models.offline.selection import best_skill, search_words
from skills_agent.graph.models.offline.usage import Usage
from skills_agent.graph.models.offline.words import stems
from skills_agent.nodes.model_call import PromptRecords

_Tool = tuple[str, dict[str, Any]]
_RUNNABLE = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".rb", ".pl", ".ts")
_FOUND = re.compile(r"^- (?P<name>\S+?)(?: \(loaded\))?: (?P<description>.*)$", re.MULTILINE)
_RUN = re.compile(r"\b(?:run|execute|call|invoke|launch)\b", re.IGNORECASE)
_FOLLOW_UP = re.compile(
    r"^\s*(?:and|also|now|then|again|what about|how about|same)\b|\b(?:it|that file|this file|the same)\b",
    re.IGNORECASE,
)


class OfflineChatModel(LocalChatModel):
    """A chat model without a language model: rules that find a skill, run its script and quote the result.

    It searches the catalog for the request, loads the best skill, reads from the instructions how a
    script is called, fills in the files and options that the request names, runs it and answers from
    the output; a skill without scripts is answered with the steps that it prescribes. Each of its
    answers says that it comes from the offline model.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    @override
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: PromptRecords | None
    ) -> AIMessage:
        """Return the next tool calls, or the answer."""
        situation = read(messages, tools)
        mark = fingerprint(messages)
        step = next_step(situation)
        if isinstance(step, str):
            return AIMessage(content=step, id=f"offline-{mark}")
        calls = [
            tool_call(name=name, args=args, id=f"offline-{mark}-{index}")
            for index, (name, args) in enumerate(step)
        ]
        return AIMessage(content="", tool_calls=calls, id=f"offline-{mark}")


def next_step(situation: Situation) -> str | list[_Tool]:
    """Return the answer, or the tools to call. It never asks for the same thing twice."""
    names = [*(name for name, _ in situation.catalog), *situation.skills]
    request = read_request(situation.request, names)
    if not situation.request:
        return answers.nothing_asked()
    if situation.of("run_script"):
        return _after_runs(situation, request)
    skill = _loaded_skill(situation, request)
    return _find(situation, request) if skill is None else _use(situation, request, skill)


def _loaded_skill(situation: Situation, request: Request) -> Skill | None:
    """Return the loaded skill that the request is for: of those loaded for it, else of the earlier ones."""
    asked = [str(result.args.get("name", "")).partition("@")[0] for result in situation.of("load_skill")]
    fresh = [situation.skills[name] for name in asked if name in situation.skills]
    if request.skill and request.skill in situation.skills:
        return situation.skills[request.skill]
    if fresh:
        described = dict(situation.catalog)
        choice = best_skill(request, [(skill.name, _about(skill, described)) for skill in fresh])
        return situation.skills[choice] if choice else fresh[0]
    if not situation.skills:
        return None
    described = dict(situation.catalog)
    earlier = [(name, _about(skill, described)) for name, skill in situation.skills.items()]
    others = [each for each in situation.catalog if each[0] not in situation.skills]
    choice = best_skill(request, [*earlier, *others])
    if choice is None and situation.earlier and _FOLLOW_UP.search(request.text):
        return list(situation.skills.values())[-1]
    return situation.skills.get(choice) if choice else None


def _about(skill: Skill, described: Mapping[str, str]) -> str:
    return described.get(skill.name) or skill.instructions[:500]


def _find(situation: Situation, request: Request) -> str | list[_Tool]:
    """Ask for the skill that fits, or say that there is none."""
    tried = situation.of("load_skill")
    if tried:
        return answers.not_loaded(str(tried[-1].args.get("name", "?")), tried[-1].text)
    searched = situation.of("search_skills")
    found = [
        (match["name"], match["description"])
        for result in searched
        if not result.refused
        for match in _FOUND.finditer(result.text)
    ]
    choice = best_skill(request, [*situation.catalog, *found])
    if choice and "load_skill" in situation.tools:
        return [("load_skill", {"name": choice})]
    if choice:
        return answers.not_loaded(choice, "no tool to load skills is offered in this step.")
    if situation.catalog_cut and "search_skills" in situation.tools and not searched:
        return [("search_skills", {"query": " ".join(search_words(request)) or request.text})]
    return answers.none_fits(situation)


def _use(situation: Situation, request: Request, skill: Skill) -> str | list[_Tool]:
    usages = _usages(skill)
    if not usages:
        return answers.steps(skill, request)
    material = _material(situation, request, skill)
    usage = _best_usage(usages, material)
    filled = fill(usage, material)
    if usage.bare and not any(call.args for call in filled.calls) and not _is_to_be_run(usage, usages):
        return answers.steps(skill, request)
    if filled.missing:
        return answers.lacking(skill.name, usage.script, filled.missing)
    if "run_script" not in situation.tools:
        return answers.no_tool(skill.name, filled.calls, situation.status)
    return [_run(skill.name, call) for call in filled.calls]


def _is_to_be_run(usage: Usage, usages: Sequence[Usage]) -> bool:
    """Tell `Run scripts/info.sh` from scripts that are only mentioned, where no argument is in sight."""
    return len({each.script for each in usages}) == 1 or bool(_RUN.search(usage.context))


def _after_runs(situation: Situation, request: Request) -> str | list[_Tool]:
    """Answer from what came back; a single call that failed is put right and tried once more."""
    runs = situation.of("run_script")
    last = runs[-1]
    name = str(last.args.get("skill", ""))
    skill = situation.skills.get(name)
    failed = was_run(last) and exit_code(last) != 0
    if len(runs) == 1 and failed and skill and "run_script" in situation.tools:
        again = _second_try(situation, request, skill, last)
        if again:
            return [_run(name, again)]
    return answers.from_runs(name, runs, request)


def _second_try(situation: Situation, request: Request, skill: Skill, run: Result) -> Call | None:
    args = run.args.get("args")
    passed = tuple(str(arg) for arg in args) if isinstance(args, list) else ()
    call = Call(str(run.args.get("path", "")), passed)
    return corrected(call, run.text, _material(situation, request, skill))


def _usages(skill: Skill) -> list[Usage]:
    scripts = [file.path for file in skill.files if file.type == "script"]
    if not scripts:
        scripts = [file.path for file in skill.files if file.path.endswith(_RUNNABLE)]
    return find_usages(skill.instructions, scripts)


def _material(situation: Situation, request: Request, skill: Skill) -> Material:
    before = (read_request(text, situation.skills) for text in situation.earlier)
    folder = _folder(skill)
    return Material(
        request=request,
        earlier_files=next((each.files for each in before if each.files), ()),
        assets=tuple(folder + file.path for file in skill.files if file.type == "asset"),
        examples=examples_in(skill.instructions),
    )


def _folder(skill: Skill) -> str:
    """Return the skill's folder where its instructions show it: `{baseDir}` was replaced by it."""
    for file in skill.files:
        match = re.search(rf"(?<![\w.>}}])(/[^\s\"'`<>]*/){re.escape(file.path)}", skill.instructions)
        if match:
            return match[1]
    return ""


def _best_usage(usages: Sequence[Usage], material: Material) -> Usage:
    """Return the usage whose script, context and arguments match the request best; the first of equals."""
    asked = material.request.stems

    def suits(usage: Usage) -> float:
        name = stems(usage.script.rsplit("/", 1)[-1].rsplit(".", 1)[0])
        return 2 * len(asked & name) + len(asked & (stems(usage.context) - name)) + fits(usage, material)

    return max(usages, key=suits)


def _run(skill: str, call: Call) -> _Tool:
    return ("run_script", {"skill": skill, "path": call.script, "args": list(call.args)})
