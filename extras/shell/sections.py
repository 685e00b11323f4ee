"""The sections of a line: of a call that runs in parts, each is judged and asked about by itself.

The journal has an entry of each run, under the key of the call: where the call goes on, after a question or a
crash, what has ended is not begun again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from langchain_core.tools import ToolException

from skills_agent.graph.langgraph_inside import skip_answers
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.execution import RunOutput
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.nodes.approval_facts import describe_question
from skills_agent.nodes.effects import JournalEntry, Status
from skills_agent.nodes.interrupts import Reject, action_request, ask_alone, check_answerable, with_words
from skills_agent.nodes.judge import Judge
from skills_agent.shell.git_lines import run, section, steps_of, written
from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.reasons import reason
from skills_agent.skills.policy.tool_spec import RUN_COMMAND
from skills_agent.state.call_attempt import RUNNING_CALL, CallAttempt, call_attempt, key_of

Run = Callable[[Mapping[str, Any], ThreadRuntime], RunOutput]
"""Runs one command to its end; takes the arguments of run_command."""
_HOLDS_FOR: Final = "a part of a line holds for that part"


@dataclass
class Sections:
    """Runs the line of one call."""

    command: str
    runtime: ThreadRuntime
    equipment: Equipment
    run_one: Run

    def __post_init__(self) -> None:
        policy, runtime, self._steps = self.equipment.policy, self.runtime, steps_of(self.command)
        self._judge = Judge.of(policy, cast("Any", runtime.state), cast("Any", runtime))
        self._invocation, self._attempt = policy.running(), call_attempt(runtime)
        self._verdict = dict(runtime.state["verdicts"][runtime.tool_call_id])
        own = self._kept(runtime.tool_call_id or "")
        self._checkpoint = own.checkpoint if own else ""
        self._question = self._next = own.answers if own else 0
        """The number of the next question of this call, and the one that LangGraph would give it."""

    def output(self) -> RunOutput:
        """Run what is to run, and return what came of it. Raises ToolException where nothing may run."""
        steps, step, status, allowed = self._steps, 0, 0, section(self._steps, 0)
        texts, artifact = list[str](), dict[str, Any]()
        if not self._kept(self._name(0)):
            self._check(allowed)
        while step < len(steps):
            if steps[step].raw == ("&&" if status else "||"):
                step += 1
                continue
            end, entry = run(steps, step), self._kept(self._name(step))
            try:
                if entry and entry.status == "done":
                    output = self._recalled(entry)
                else:
                    digest = self._allow(step, entry, is_asked=step >= allowed)
                    output = self._ran(step, digest)
            except (SkillError, ToolException) as error:
                if not texts:
                    raise
                texts.append(f"[Not run: {self._text(step, len(steps))}\n{error}]")
                break
            texts.append(f"$ {self._text(step, end)}\n{output.content}")
            artifact = _joined(artifact, output.artifact)
            allowed = max(allowed, section(steps, step))
            status, step = output.artifact["exit_code"], end
            if status is None:  # It was stopped: the rest is, too.
                break
        return RunOutput("\n".join(texts), artifact)

    def _check(self, step: int) -> None:
        """Look at the sections from a step on before anything runs. Raises where one would not be run."""
        while step < len(self._steps):
            call = self._call(step, section(self._steps, step))
            verdict, why = self._judge.verdict(call), ""
            if verdict.decision == "ask" and self.equipment.policy.approval == "fail":
                why = "Nobody is asked here. "
            if verdict.decision == "deny" or why:
                raise ToolException(
                    f"Nothing of the line was run. Of {call.command!r}: {why}{verdict.reason}"
                )
            if verdict.decision == "ask":
                check_answerable(RUN_COMMAND)
            step = section(self._steps, step)

    def _allow(self, step: int, entry: JournalEntry | None, *, is_asked: bool) -> str:
        """Return the digest of what runs at a step; a person may be asked about its section first.

        Raises ToolException where it must not run.
        """
        call = self._call(step, section(self._steps, step))
        digest = key_of(self._attempt.key, "", str(step), self._judge.digest(call))
        if entry:
            self._question = max(self._question, entry.answers)
        if not is_asked or self._is_held(entry):
            return entry.digest if entry else digest
        verdict = self._judge.verdict(call)
        self._verdict["by"] = verdict.by
        if verdict.decision == "ask" or (entry and entry.status == "paused"):
            self._keep(step, entry.digest if entry else digest, "paused")
            self._place()
            request = action_request(call, describe_question(call, verdict.facts, self.equipment.policy))
            decision = ask_alone(request, _HOLDS_FOR)
            self._question, self._next = self._question + 1, self._next + 1
            self._verdict["by"] = "approval"
            if isinstance(decision, Reject):
                raise ToolException(with_words("A person rejected it", decision.message))
        if verdict.decision == "deny":
            raise ToolException(verdict.reason)
        if entry and entry.digest != digest:
            raise ToolException(reason({"changed": RUN_COMMAND}))
        return digest

    def _ran(self, step: int, digest: str) -> RunOutput:
        """Run what a step begins, and keep what came of it."""
        before = self._kept(self._name(step))
        is_held = self._is_held(self._keep(step, digest, "started"))
        self._place()
        configurable = self.runtime.config["configurable"]
        running = configurable[RUNNING_CALL]
        running = running._replace(
            attempt=CallAttempt(digest, self._attempt.attempt),
            is_resumed=running.is_resumed and before is not None and before.status == "started",
        )
        verdicts = {**self.runtime.state["verdicts"], self.runtime.tool_call_id: self._verdict}
        runtime = replace(
            self.runtime,
            state={**self.runtime.state, "verdicts": verdicts},
            config={**self.runtime.config, "configurable": {**configurable, RUNNING_CALL: running}},
        )
        output = self.run_one(self._call(step, run(self._steps, step)).args, runtime)
        if is_held:  # A person was asked about its changes.
            self._question, self._next = self._question + 1, self._next + 1
        self._keep(step, digest, "done", output)
        return output

    def _recalled(self, entry: JournalEntry) -> RunOutput:
        """Return what a run printed that ended in an earlier attempt."""
        self._question = max(self._question, entry.answers)
        self._verdict["by"] = "approval"  # of the section, where more of it is to run: git alone
        return RunOutput(*self._invocation.produced(entry)) if self._invocation else RunOutput("", {})

    def _call(self, step: int, end: int) -> Call:
        args = {**self._verdict["args"], "command": self._text(step, end)}
        return self._judge.call(RUN_COMMAND, args)

    def _text(self, step: int, end: int) -> str:
        return written(self.command, self._steps, step, end)

    def _is_held(self, entry: JournalEntry | None) -> bool:
        held = self.equipment.policy.held(entry.digest) if entry else None
        return held is not None and not held.is_cut_off

    def _place(self) -> None:
        """Make the next question the one of its number, also where answers before it are not asked for."""
        if self._question > self._next:
            skip_answers(self._question - self._next)
            self._next = self._question

    def _name(self, step: int) -> str:
        return f"{self._attempt.key}/{step}"

    def _kept(self, name: str) -> JournalEntry | None:
        return self._invocation.journal.get(self._invocation.thread, name) if self._invocation else None

    def _keep(
        self, step: int, digest: str, status: Status, output: RunOutput | None = None
    ) -> JournalEntry | None:
        if not self._invocation:
            return None
        entry = JournalEntry.of(self._name(step), RUN_COMMAND, digest, self._invocation, self._checkpoint)
        entry = replace(entry, status=status, answers=self._question, key=digest)
        entry = entry.done([*output]) if output else entry
        self._invocation.journal.put(entry)
        return entry


def _joined(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return the artifact of two runs: figures are added, lists are joined, all else is the last one's."""
    joined = {**first, **then}
    for name in first.keys() & then.keys() - {"exit_code"}:
        if isinstance(then[name], int | float | list):
            joined[name] = first[name] + then[name]
    return joined
