"""The tool `propose_skill`: the agent proposes a skill from what it learned, and a person decides.

What is asked about is a draft, known by its digest, and the tool installs just that: the question's answer
holds for this draft in the place of what was there then. Skills go to `.agent/skills` of the workspace, whose
skills nobody vouches for until a person does.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from langchain_core.tools import BaseTool, ToolException
from langgraph.runtime import get_runtime
from pydantic import ValidationError

from skills_agent.graph.hooks import first
from skills_agent.graph.services import Services, usual_model
from skills_agent.graph.settings import Settings
from skills_agent.graph.tools.change import Changes
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.graph.tools.workspace import OWN_FOLDER, SKILLS_FOLDER
from skills_agent.graph.user_folders import user_state_folder
from skills_agent.packages.difference import FileDifference
from skills_agent.packages.errors import PackageError, shown
from skills_agent.packages.installation import Change
from skills_agent.packages.journal import make_own
from skills_agent.packages.lock import Proposed
from skills_agent.packages.proposal import (
    MAX_BYTES,
    ProposeSkillArguments,
    digest_of_change,
    done,
    draft,
    install_proposed,
)
from skills_agent.packages.review import Review, difference_of, reviews
from skills_agent.packages.scan import ScanFinding, finding_text
from skills_agent.packages.settings import PackageSettings
from skills_agent.packages.target import Target
from skills_agent.skills.confined import is_beneath, read_beneath
from skills_agent.skills.errors import SkillError, SkillsAgentError
from skills_agent.skills.policy.approval_text import Content, FileChange, code, escape_markdown
from skills_agent.skills.policy.tool_spec import PROPOSE_SKILL
from skills_agent.skills.policy.trust import TrustFileError
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line
from skills_agent.state.call_attempt import call_attempt
from skills_agent.state.context import Context
from skills_agent.state.records import active_skills
from skills_agent.state.transcript import last_ai

_SHOWN: Final = 12
"""Digits of a digest that people compare; and of notes of the scan."""
_LINE: Final = 600
"""Characters of one fact in a question."""
_WRITERS: Final = ("write_file", "edit_file")


@dataclass(frozen=True)
class ProposeSkill:
    """The tool, and what its question shows."""

    services: Services

    def tool(self) -> BaseTool:
        """Return the tool."""
        return declare(self.propose_skill, arguments=ProposeSkillArguments)

    def change(self, args: Mapping[str, Any]) -> FileChange | None:
        """Return what a call would change in a skill, as it is now; None for unusable arguments."""
        try:
            wish = ProposeSkillArguments.model_validate(args)
        except ValidationError:
            return None
        path = f"{OWN_FOLDER}/{SKILLS_FOLDER}/{wish.name}"
        try:
            with self._drafted(wish) as (target, change):
                skills = self.services.library.shared.refresh().skills
                (reviewed,) = reviews([change], target.folder, skills)
                contents = tuple(_contents(target, change, reviewed, wish.reason, path))
        except (SkillError, OSError) as error:
            return FileChange(path, "", "", is_diff=False, digest="", fault=str(error))
        warnings = [_warning(finding) for finding in reviewed.findings if finding.level == "warning"]
        if change.kind == "new" and (source := self._trusted_source()):
            warnings = [
                f"Every skill in this folder is trusted ({code(source.label)}): this one will be, too.",
                *warnings,
            ]
        return FileChange(
            path,
            change.kind,
            "",
            is_diff=False,
            digest=digest_of_change(change),
            contents=contents,
            warnings=tuple(warnings),
        )

    def measured(self, args: Mapping[str, Any], context: Context) -> str:
        """Return what the evals of a proposal say; empty for none, and where nobody can say it.

        It takes model calls and time, so it is done once, before the question.
        """
        measure, seconds = first("measure_draft"), PackageSettings.of(self.settings.extras).eval_seconds
        if not (measure and seconds):
            return ""
        chosen, cancellation = self.services.models.choose(context), self.services.cancellation()
        runtime = get_runtime()
        control = runtime.control if runtime else None

        def is_over() -> bool:
            return cancellation.is_requested or bool(control and control.drain_requested)

        try:
            with self._drafted(ProposeSkillArguments.model_validate(args)) as (target, change):
                folder = change.put.folder
                base = target.folder / change.name if change.found else None
                try:
                    text: str = measure(
                        self.settings, seconds, folder, base, chosen.name, chosen.chat, is_over
                    )
                except (SkillsAgentError, OSError) as error:  # a person can decide without them
                    return f"Its evals could not be run: {error}"
                return text
        except (ValidationError, SkillError):
            return ""

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
        target, key = self._target(), call_attempt(runtime).key
        target.settle()
        if before := done(target, name, key):
            return self._result(name, before.digest, "an attempt before this one did it", runtime)
        wish = ProposeSkillArguments(name=name, reason=reason, files=files, remove=remove)
        with target.draft() as into:
            change = self._draft(wish, target, into)
            if digest_of_change(change) != _approved(runtime):
                raise ToolException(
                    f"Nothing was installed: {name}, or what is in its place, is not what a person was asked "
                    "about. Look at what is there, and propose it again."
                )
            if change.kind == "same":
                return f"{name} is just like this already. Nothing was changed."
            install_proposed(target, into, change, self._proposed(runtime, reason, key), datetime.now(UTC))
        kind = "new" if change.kind == "new" else f"in place of {change.found[:_SHOWN]}, which is kept"
        return self._result(name, change.put.digest, kind, runtime)

    def in_place_of_writing(self, changes: Changes) -> Changes:
        """Return what says what calls would change, where proposals alone change files of skills."""
        refusing = {name: partial(self._not_of_a_skill, changes[name]) for name in _WRITERS}
        return {**changes, **refusing, PROPOSE_SKILL: self.change}

    @property
    def settings(self) -> Settings:
        """Return those of the agent."""
        return self.services.settings

    @property
    def sources(self) -> list[DirectorySource]:
        """Return the sources that find skills where accepted ones are put; none, if a host brings others."""
        return [source for source in self._folders() if os.path.realpath(source.folder) == self._own()]

    def _not_of_a_skill(
        self, change_of: Callable[[Mapping[str, Any]], FileChange | None], args: Mapping[str, Any]
    ) -> FileChange | None:
        change, root = change_of(args), os.path.realpath(self.settings.workspace)
        if change is None or change.fault:
            return change
        # A folder that holds the whole workspace says nothing of a file in it.
        folders = [real for each in self._folders() if _is_in(real := os.path.realpath(each.folder), root)]
        if any(_is_in(f"{root}/{change.path}", folder) for folder in folders):
            fault = f"Not run: {change.path} is in a folder of skills. Skills are changed by {PROPOSE_SKILL}."
            return change._replace(fault=fault)
        return change

    def _folders(self) -> list[DirectorySource]:
        return [
            source for source in self.services.library.shared.sources if isinstance(source, DirectorySource)
        ]

    def _own(self) -> str:
        return os.path.realpath(self.settings.workspace / OWN_FOLDER / SKILLS_FOLDER)

    def _target(self) -> Target:
        workspace = self.settings.workspace
        folder = workspace / OWN_FOLDER / SKILLS_FOLDER
        if not is_beneath(workspace, folder):  # a repository can bring links
            raise PackageError(f"Nothing is proposed: {folder} leads out of the workspace.")
        return Target(folder.resolve(), user_state_folder(self.settings))

    @contextmanager
    def _drafted(self, wish: ProposeSkillArguments) -> Iterator[tuple[Target, Change]]:
        """Give a draft elsewhere, to be looked at. Raises SkillError and OSError."""
        target, place = self._target(), user_state_folder(self.settings) / "proposals"
        make_own(place)
        with tempfile.TemporaryDirectory(prefix="draft-", dir=place) as into:
            yield target, self._draft(wish, target, Path(into))

    def _draft(self, wish: ProposeSkillArguments, target: Target, into: Path) -> Change:
        skills = self.services.library.shared.refresh().skills
        elsewhere = {skill.name: skill.source for skill in skills if not _is_in(skill.path, self._own())}
        return draft(wish, target, into, elsewhere, self._vouched)

    def _vouched(self, folder: Path, name: str, digest: str) -> str:
        if source := self._trusted_source():
            return f"it is in a trusted folder ({source.label})"
        real = os.path.realpath(folder)
        try:
            if any(trusted.path == real for trusted in self.services.trust.paths()):
                return "a person vouches for it, or for a version of it (skills-agent trust)"
        except TrustFileError as error:
            return f"it cannot be told whether a person vouches for it: {str(error).rstrip('.')}"
        signer = self.services.vouch_for(folder, name, digest)
        return f"it is signed by {visible_line(signer)}" if signer else ""

    def _trusted_source(self) -> DirectorySource | None:
        """Return the source that makes the skills of the folder trusted; None where nobody vouches for it."""
        return next((source for source in self.sources if source.trusted), None)

    def _proposed(self, runtime: ThreadRuntime, reason: str, key: str) -> Proposed:
        reply = last_ai(runtime.state.get("messages") or [])
        told = reply.response_metadata.get("model_name") if reply else ""
        model = str(
            told or Context.of(runtime.context).model or usual_model(self.settings, self.services.model)
        )
        thread = str(runtime.config.get("configurable", {}).get("thread_id") or "unknown")
        return Proposed(thread=_fact(thread), model=_fact(model), reason=_fact(reason), call=key)

    def _result(self, name: str, digest: str, kind: str, runtime: ThreadRuntime) -> str:
        place = f"{OWN_FOLDER}/{SKILLS_FOLDER}/{name}"
        is_loaded = name in active_skills(runtime.state.get("skills_loaded"))
        then = (
            _LOADED[self.settings.on_change]
            if is_loaded
            else "It is in the catalog from the next message on."
        )
        agreed = f"A person agreed: {name} is installed in {place} ({kind}; version {digest[:_SHOWN]})."
        return f"{agreed} {then} To undo it: {_undo(name, is_new=kind == 'new')}"


_LOADED: Final = {
    "pin": "This thread keeps the version that it has loaded; a new thread gets the new one.",
    "refresh": "This thread goes on with the version that it has loaded, and gets the new one with the next "
    "message.",
    "ask": "This thread keeps the version that it has loaded, until a person is asked with the next message.",
}


def _undo(name: str, *, is_new: bool) -> str:
    return f"skills-agent skills {f'remove {name}' if is_new else f'update {name} --rollback'}"


def _approved(runtime: ThreadRuntime) -> str:
    """Return the digest of the proposal that a person agreed to with this call; empty for none."""
    verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id or "")
    return verdict.get("target", "") if verdict else ""


def _is_in(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{folder}{os.sep}")


def _contents(target: Target, change: Change, reviewed: Review, reason: str, path: str) -> Iterator[Content]:
    what = {"new": "a new skill", "update": "an edit of a skill", "same": "no change of a skill"}
    size = f"{count(reviewed.files, 'file')}, {reviewed.bytes:,} bytes"
    label = f"{PROPOSE_SKILL} {code(change.name)}: {what[change.kind]} in {code(path)} ({size}):"
    yield Content(label, "\n".join(_facts(change, reviewed, reason)))
    for each in difference_of(change, target.folder / change.name):
        yield _file(each, change)
    if notes := [finding for finding in reviewed.findings if finding.level != "warning"]:
        yield Content("Notes of the scan:", "\n".join(_fact(finding_text(note)) for note in notes[:_SHOWN]))


def _facts(change: Change, reviewed: Review, reason: str) -> Iterator[str]:
    rows = {
        "why": reason,
        "description": reviewed.description,
        "version": " -> ".join(filter(None, (reviewed.version_before, reviewed.version))),
        **reviewed.facts,
        "replaces": change.found[:_SHOWN],
        "undo": _undo(reviewed.name, is_new=change.kind == "new"),
    }
    return (f"{label}: {_fact(text)}" for label, text in rows.items() if text)


def _fact(text: str) -> str:
    return shown(" ".join(text.split()), _LINE)


def _file(each: FileDifference, change: Change) -> Content:
    if each.kind == "added" and not each.said:
        text = read_beneath(change.put.folder, each.path, MAX_BYTES, follow=False).decode()
        lines = len(text.removesuffix("\n").split("\n"))
        return Content(f"{code(each.path)} (new, {count(lines, 'line')}):", text)
    said = f": {escape_markdown(each.said)}" if each.said else ""
    label = f"{code(each.path)} ({each.kind}{said})"
    return Content(f"{label}:", "\n".join(each.lines), "diff") if each.lines else Content(label, "")


def _warning(each: ScanFinding) -> str:
    """Return a finding of the scan as a sentence of Markdown."""
    place = code(f"{each.path}:{each.line}" if each.line else each.path)
    times = f" ({each.times} times)" if each.times > 1 else ""
    excerpt = f": {code(each.excerpt)}" if each.excerpt and each.kind != "name" else ""
    return f"{place} {escape_markdown(each.message[:1].lower() + each.message[1:])}{times}{excerpt}."
