"""The tool `propose_skill`: the agent proposes a skill from what it learned, and a person decides.

What is asked about is a draft, named by its digest, and the tool installs just that: the question's answer
holds for this draft in the place of what was there then. Skills go to `.agent/skills` of the workspace, whose
skills nobody vouches for until a person does.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from skills_agent.graph.places import user_state_folder
from skills_agent.graph.settings import Settings, content_limits
from skills_agent.graph.tools.change import Changes
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.graph.tools.workspace import OWN_FOLDER, SKILLS_FOLDER
from skills_agent.graph.vouchers import Vouchers
from skills_agent.packages.difference import FileDifference, differences
from skills_agent.packages.installation import Origin
from skills_agent.packages.lock import Proposed
from skills_agent.packages.offer import Listed
from skills_agent.packages.proposal import (
    Proposal,
    ProposalError,
    Proposals,
    Surroundings,
    Wish,
    read_text,
)
from skills_agent.packages.required import required_of
from skills_agent.packages.review import Origin as ReviewOrigin
from skills_agent.packages.review import Review, review
from skills_agent.packages.scan import ScanFinding
from skills_agent.packages.staging import files_of
from skills_agent.packages.target import Target
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.errors import SkillError, SkillsAgentError
from skills_agent.skills.library.contents import ContentLimits, list_contents, read_digests
from skills_agent.skills.library.registry import Library
from skills_agent.skills.policy.question import Content, FileChange, code, escape_markdown
from skills_agent.skills.policy.tool_spec import PROPOSE_SKILL
from skills_agent.skills.policy.trust import TrustFileError, TrustList
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.text import count, cut
from skills_agent.skills.visible import visible_line
from skills_agent.state.call_attempt import call_attempt
from skills_agent.state.context import Context, caller_of
from skills_agent.state.records import active_skills
from skills_agent.state.transcript import last_ai

_SHOWN: Final = 12
"""Digits of a digest that people compare; and of findings, tools and needs."""
_LINE: Final = 600
"""Characters of one fact in a question."""
_ANY_SIZE: Final = ContentLimits(1 << 62, 1 << 31)
"""What is replaced was measured within the limits."""
_WRITERS: Final = ("write_file", "edit_file")

Evaluate = Callable[[Path, Path | None, Context], str]
"""Returns what the evals of a skill say with the draft and without it, in a few lines; empty: it has none.

Gets the folder of the draft, and that of the version it would replace.
"""


class ProposeSkillArguments(BaseModel):
    """What a model sends to propose a skill."""

    name: Annotated[str, Field(max_length=200)]
    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000),
        Field(description="What was learned, and what the skill makes better"),
    ]
    files: Annotated[
        dict[str, str],
        Field(
            description="Whole texts by path: SKILL.md and others; of an edit only what changes. "
            "Eval cases in evals/ are run first"
        ),
    ] = {}
    remove: Annotated[list[str], Field(description="Files that the skill shall not have any more")] = []

    @property
    def wish(self) -> Wish:
        """Return what the skill shall be."""
        return Wish(self.name, self.files, self.remove)


@dataclass(frozen=True)
class ProposeSkill:
    """The tool, and what its question shows."""

    settings: Settings
    library: Library
    trust: TrustList
    vouchers: Vouchers
    usual_model: str
    """The name of the model where a reply has none."""
    evaluate: Evaluate | None = None
    _reviews: dict[tuple[str, str, str], Review] = field(default_factory=dict)
    """By draft, what it would replace, and the names that are known: a question looks several times."""

    def tool(self) -> BaseTool:
        """Return the tool."""
        return declare(self.propose_skill, arguments=ProposeSkillArguments)

    def change(self, args: Mapping[str, Any]) -> FileChange | None:
        """Return what a call would change in a skill, as it is now; None for unusable arguments."""
        try:
            wanted = ProposeSkillArguments.model_validate(args)
        except ValidationError:
            return None
        path = f"{OWN_FOLDER}/{SKILLS_FOLDER}/{wanted.name}"
        try:
            proposal = self._proposals().draft(wanted.wish, self._surroundings())
            reviewed = self._review(proposal)
        except (SkillError, OSError) as error:
            return FileChange(path, "", "", is_diff=False, digest="", fault=str(error))
        contents = tuple(self._contents(proposal, reviewed, wanted.reason))
        warnings = (*self._warnings(proposal), *map(_finding_text, reviewed.warnings))
        return FileChange(
            path,
            proposal.change,
            "",
            is_diff=False,
            digest=proposal.digest,
            contents=contents,
            warnings=warnings,
        )

    def measured(self, args: Mapping[str, Any], context: Context) -> str:
        """Return what the evals of a proposal say; empty for none, and where nobody can say it.

        It takes model calls and time, so it is done once, before the question.
        """
        try:
            wish = ProposeSkillArguments.model_validate(args).wish
            proposal = self._proposals().draft(wish, self._surroundings())
        except (ValidationError, SkillError):
            return ""
        return self._measured(proposal, context)

    def _measured(self, proposal: Proposal, context: Context) -> str:
        if self.evaluate is None:
            return ""
        try:
            return self.evaluate(proposal.skill.folder, proposal.base, context)
        except (SkillsAgentError, OSError) as error:  # a person can decide without them
            return f"Its evals could not be run: {error}"

    def propose_skill(
        self,
        name: str,
        reason: str,
        runtime: ThreadRuntime,
        files: dict[str, str],
        remove: list[str],
    ) -> str:
        """Propose a new skill, or an edit of one that was proposed before, from what worked in this thread.

        A person sees every file, a scan and your reason, and decides. Give whole files.
        """
        proposals, key = self._proposals(), call_attempt(runtime).key
        proposals.target.settle()
        if done := proposals.done(name, key):
            return self._result(name, done.digest, "an attempt before this one did it", runtime)
        proposal = proposals.draft(Wish(name, files, remove), self._surroundings())
        if proposal.digest != self._approved(runtime):
            raise ToolException(
                f"Nothing was installed: {name}, or what is in its place, is not what a person was asked "
                "about. Look at what is there, and propose it again."
            )
        if proposal.change == "same":
            return f"{name} is just like this already. Nothing was changed."
        # What was measured before the question was another draft.
        figures = self._measured(proposal, Context.of(runtime.context)) if _is_edited(runtime) else ""
        proposals.install(proposal, self._proposed(runtime, reason, key), _origin())
        kind = "new" if proposal.change == "new" else f"in place of {proposal.found[:_SHOWN]}, which is kept"
        told = self._result(name, proposal.skill.digest, kind, runtime)
        return f"{told}\nIts evals, of what the person made of it:\n{figures}" if figures else told

    def in_place_of_writing(self, changes: Changes) -> Changes:
        """Return what says what calls would change, where proposals alone change files of skills."""
        refusing = {name: partial(self._not_of_a_skill, changes[name]) for name in _WRITERS}
        return {**changes, **refusing, PROPOSE_SKILL: self.change}

    def _not_of_a_skill(
        self, change_of: Callable[[Mapping[str, Any]], FileChange | None], args: Mapping[str, Any]
    ) -> FileChange | None:
        change, root = change_of(args), os.path.realpath(self.settings.workspace)
        if change is None or change.fault:
            return change
        sources = [each for each in self.library.shared.sources if isinstance(each, DirectorySource)]
        # A folder that holds the whole workspace says nothing of a file in it.
        folders = [real for each in sources if _is_in(real := os.path.realpath(each.folder), root)]
        if any(_is_in(f"{root}/{change.path}", folder) for folder in folders):
            fault = f"Not run: {change.path} is in a folder of skills. Skills are changed by {PROPOSE_SKILL}."
            return change._replace(fault=fault)
        return change

    def _proposals(self) -> Proposals:
        workspace = self.settings.workspace
        folder = workspace / OWN_FOLDER / SKILLS_FOLDER
        if not is_beneath(workspace, folder):  # a repository can bring links
            raise ProposalError("a skill", f"{folder} leads out of the workspace")
        state = user_state_folder(self.settings)
        return Proposals(Target(folder.resolve(), state, content_limits(self.settings)), state)

    def _surroundings(self) -> Surroundings:
        own = os.path.realpath(self.settings.workspace / OWN_FOLDER / SKILLS_FOLDER)
        skills = self.library.shared.refresh().skills
        elsewhere = {each.name: each.source for each in skills if not _is_in(each.path, own)}
        return Surroundings(elsewhere, self._vouched)

    def _vouched(self, folder: Path, name: str, digest: str) -> str:
        if source := self._trusted_source():
            return f"it is in a trusted folder ({source.label})"
        real = os.path.realpath(folder)
        try:
            if any(each.path == real for each in self.trust.paths()):
                return "a person vouches for it, or for a version of it (skills-agent trust)"
        except TrustFileError as error:
            return f"it cannot be told whether a person vouches for it: {str(error).rstrip('.')}"
        signer = self.vouchers.vouch_for(folder, name, digest)
        return f"it is signed by {visible_line(signer)}" if signer else ""

    @property
    def sources(self) -> list[DirectorySource]:
        """Return the sources that find skills where accepted ones are put; none, if a host brings others."""
        own = os.path.realpath(self.settings.workspace / OWN_FOLDER / SKILLS_FOLDER)
        every = (each for each in self.library.shared.sources if isinstance(each, DirectorySource))
        return [each for each in every if os.path.realpath(each.folder) == own]

    def _trusted_source(self) -> DirectorySource | None:
        """Return the source that makes the skills of the folder trusted; None where nobody vouches for it."""
        return next((each for each in self.sources if each.trusted), None)

    def _review(self, proposal: Proposal) -> Review:
        skills = self.library.shared.refresh().skills
        known = {each.name: each.source for each in skills if each.name != proposal.skill.name}
        key = (proposal.skill.digest, proposal.found, str(sorted(known.items())))
        if key not in self._reviews:
            self._reviews.clear()  # one question at a time is put
            metadata = proposal.skill.metadata
            listed = Listed(proposal.skill.name, requires=metadata.requires if metadata else ())
            versions = {each.name: each.version or "" for each in skills}
            self._reviews[key] = review(
                proposal.skill,
                ReviewOrigin("", "", change=proposal.change),
                proposal.base,
                known,
                required_of(listed, {}, versions, ()),
            )
        return self._reviews[key]

    def _contents(self, proposal: Proposal, reviewed: Review, reason: str) -> Iterator[Content]:
        name, folder = reviewed.name, f"{OWN_FOLDER}/{SKILLS_FOLDER}/{reviewed.name}"
        what = {"new": "a new skill", "update": "an edit of a skill", "same": "no change of a skill"}
        size = f"{count(reviewed.files, 'file')}, {reviewed.bytes:,} bytes"
        label = f"{PROPOSE_SKILL} {code(name)}: {what[proposal.change]} in {code(folder)} ({size}):"
        yield Content(label, "\n".join(_facts(proposal, reviewed, reason)))
        for each in _differences(proposal):
            yield _file(each, proposal)
        if notes := [each for each in reviewed.findings if each.level != "warning"]:
            yield Content("Notes of the scan:", "\n".join(map(_note_text, notes[:_SHOWN])))

    def _warnings(self, proposal: Proposal) -> Iterator[str]:
        if proposal.change == "new" and (source := self._trusted_source()):
            yield f"Every skill in this folder is trusted ({code(source.label)}): this one will be, too."

    def _approved(self, runtime: ThreadRuntime) -> str:
        """Return the digest of the proposal that a person agreed to with this call; empty for none."""
        verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id or "")
        return verdict.get("target", "") if verdict else ""

    def _proposed(self, runtime: ThreadRuntime, reason: str, key: str) -> Proposed:
        info, reply = runtime.execution_info, last_ai(runtime.state.get("messages") or [])
        told = reply.response_metadata.get("model_name") if reply else ""
        model = str(told or Context.of(runtime.context).model or self.usual_model)
        thread = str(runtime.config.get("configurable", {}).get("thread_id") or "unknown")
        return Proposed(
            thread=_fact(thread),
            step=(info.checkpoint_id if info else "") or "",
            model=_fact(model),
            reason=_fact(reason),
            call=key,
            accepted=_fact(caller_of(runtime) or ""),
        )

    def _result(self, name: str, digest: str, kind: str, runtime: ThreadRuntime) -> str:
        place = f"{OWN_FOLDER}/{SKILLS_FOLDER}/{name}"
        parts = [f"A person agreed: {name} is installed in {place} ({kind}; version {digest[:_SHOWN]})."]
        if name in active_skills(runtime.state.get("skills_loaded")):
            parts.append(_LOADED[self.settings.on_change])
        else:
            parts.append("It is in the catalog from the next message on.")
        return " ".join([*parts, f"To undo it: skills-agent skills rollback {name}"])


_LOADED: Final = {
    "pin": "This thread keeps the version that it has loaded; a new thread gets the new one.",
    "refresh": "This thread goes on with the version that it has loaded, and gets the new one with the next "
    "message.",
    "ask": "This thread keeps the version that it has loaded, until a person is asked with the next message.",
}


def _is_edited(runtime: ThreadRuntime) -> bool:
    """Return whether a person changed the call that they agreed to."""
    verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id or "")
    return verdict is not None and verdict["reason"] == "edited"


def _is_in(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{folder}{os.sep}")


def _origin() -> Origin:
    return Origin(f"skills-agent {version('skills-agent')}", datetime.now(UTC))


def _facts(proposal: Proposal, reviewed: Review, reason: str) -> Iterator[str]:
    rows = {
        "why": reason,
        "description": reviewed.description,
        "version": " -> ".join(filter(None, (reviewed.version_before, reviewed.version))),
        "may use": ", ".join(reviewed.allowed_tools or ()),
        "refuses": ", ".join(reviewed.disallowed_tools),
        "scripts": ", ".join(_script_text(each.path, each.programs) for each in reviewed.scripts),
        "needs": ", ".join(each.text for each in reviewed.needs),
        "requires": "; ".join(f"{each.requirement}: {each.message}" for each in reviewed.requires),
        "replaces": proposal.found[:_SHOWN],
        "undo": f"skills-agent skills rollback {reviewed.name}",
        "draft": f"{proposal.skill.folder} ({proposal.skill.digest[:_SHOWN]})",
    }
    return (f"{label}: {_fact(text)}" for label, text in rows.items() if text)


def _fact(text: str) -> str:
    return cut(visible_line(" ".join(text.split())), _LINE)


def _script_text(path: str, programs: tuple[str, ...]) -> str:
    return f"{path} ({programs[0]})" if programs else path


def _differences(proposal: Proposal) -> tuple[FileDifference, ...]:
    old, before = proposal.skill.folder, dict[str, str]()
    if proposal.base is not None:
        old = proposal.base
        before = files_of(list(read_digests(old, list_contents(old, _ANY_SIZE))))
    return differences(old, before, proposal.skill.folder, proposal.skill.files)


def _file(each: FileDifference, proposal: Proposal) -> Content:
    if each.kind == "added" and not each.said:
        text = read_text(proposal.skill.folder, each.path)
        lines = len(text.removesuffix("\n").split("\n"))
        return Content(f"{code(each.path)} (new, {count(lines, 'line')}):", text)
    said = f": {escape_markdown(each.said)}" if each.said else ""
    label = f"{code(each.path)} ({each.kind}{said})"
    return Content(f"{label}:", "\n".join(each.lines), "diff") if each.lines else Content(label, "")


def _finding_text(each: ScanFinding) -> str:
    """Return a finding of the scan as a sentence of Markdown."""
    place = code(f"{each.path}:{each.line}" if each.line else each.path)
    times = f" ({each.times} times)" if each.times > 1 else ""
    excerpt = f": {code(each.excerpt)}" if each.excerpt and each.kind != "name" else ""
    return f"{place} {escape_markdown(each.message[:1].lower() + each.message[1:])}{times}{excerpt}."


def _note_text(each: ScanFinding) -> str:
    place = f"{each.path}:{each.line}" if each.line else each.path
    return _fact(f"{place} {each.message[:1].lower()}{each.message[1:]}: {each.excerpt}")
