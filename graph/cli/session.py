"""One thread of one workspace, ready to run."""

import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot, StateUpdate

from skills_agent.graph.build import wire
from skills_agent.graph.cli.errors import ModelChoiceError
from skills_agent.graph.cli.options import Choice
from skills_agent.graph.cli.outcome import Outcome, Question, Status
from skills_agent.graph.cli.progress import STREAM_MODES, Progress, View
from skills_agent.graph.models.errors import ModelError
from skills_agent.graph.services import make_services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of, kept_options, open_database, store_of, thread_ids
from skills_agent.graph.threads.dsn import without_password
from skills_agent.graph.threads.errors import UnfinishedError, UnknownGrantError, UnknownThreadError
from skills_agent.skills.library.registry import Registry
from skills_agent.state.ledger import active_skills
from skills_agent.state.schema import AgentInput

Decisions = Mapping[str, Sequence[Mapping[str, Any]]]
"""Answers by interrupt id, one for each of its requests, by position."""


@dataclass(frozen=True)
class Session:
    """One thread: what can be done with it. Every run streams to a view and returns its outcome."""

    thread: str
    runs: CompiledAgent
    config: RunnableConfig
    workspace: Path
    registry: Registry
    checkpointer: str = ""
    """What the command line named as the database, without its password; empty where it did not."""
    control: RunControl = field(default_factory=RunControl)
    """Through which a signal drains the run: what runs ends, and nothing new begins."""

    def ask(self, question: str, skills: Sequence[str], view: View) -> Outcome:
        """Say something and let the agent work until it has an answer or a question."""
        asked: AgentInput = {"messages": [HumanMessage(question)], "skills": list(skills)}
        return self._run(asked, view)

    def decide(self, decisions: Decisions, view: View) -> Outcome:
        """Answer the open questions and let the agent go on."""
        answers = {question: {"decisions": list(each)} for question, each in decisions.items()}
        return self._run(Command(resume=answers), view)

    def go_on(self, view: View) -> Outcome:
        """Finish a run that was cut off."""
        return self._run(None, view)

    def now(self) -> Outcome:
        """Return what the thread came to so far."""
        snapshot = self.snapshot()
        return _outcome(self.thread, snapshot, list((snapshot.values.get("verdicts") or {}).values()))

    def revoke(self, grant: str) -> None:
        """Revoke what a person granted in this thread. An open question stays open.

        Raises ThreadError for a grant that does not exist, and in a thread that was cut off.
        """
        snapshot = self.snapshot()
        known = snapshot.values.get("grants") or {}
        if grant not in known:
            raise UnknownGrantError(self.thread, grant, list(known))
        update = {"grants": {grant: {**known[grant], "revoked": True}}}
        status = status_of(snapshot)
        if status == "unfinished":
            raise UnfinishedError(self.thread, self.resume_command())
        if status == "waiting":
            # update_state would drop the question, and run again what runs beside it.
            self.runs.invoke(Command(update=update), self.config, durability="sync")
            self.runs.keeper.audit.updated(self.thread, self.snapshot(), [StateUpdate(update)])
        else:
            self.runs.update_state(self.config, update, as_node="answer")

    def snapshot(self) -> StateSnapshot:
        """Return the thread's channels and pending tasks."""
        return self.runs.get_state(self.config)

    def resume_command(self, *answer: str) -> str:
        """Return the command that finishes this thread's turn, for the shell the person is in."""
        return self._command("resume", self.thread, *answer)

    def chat_command(self) -> str:
        """Return the command that goes on with this conversation."""
        return self._command("chat", "--thread", self.thread)

    def _command(self, *command: str) -> str:
        words = ["skills-agent", *command]
        if self.workspace != Path.cwd():
            words += ["--workspace", str(self.workspace)]
        if self.checkpointer:
            words += ["--checkpointer", self.checkpointer]
        return shlex.join(words)

    def _run(self, asked: AgentInput | Command[Any] | None, view: View) -> Outcome:
        before = self.snapshot()
        progress = Progress(view, before.values)
        if not isinstance(asked, dict):
            progress.remember(before.values.get("verdicts") or {})
        parts: Iterator[Any] = self.runs.stream(
            asked,
            self.config,
            stream_mode=list(STREAM_MODES),
            durability="sync",
            version="v2",
            control=self.control,
        )
        # A drained run is one that is not finished: its steps are kept.
        with suppress(GraphDrained):
            for part in parts:
                progress.take(part)
        return _outcome(self.thread, self.snapshot(), progress.calls)


@contextmanager
def open_session(choice: Choice, thread: str | None = None, *, must_exist: bool = False) -> Iterator[Session]:
    """Open a thread with the options it was started with; explicit ones win.

    Kept with the thread: folders of skills and the model. What runs without a question is never
    kept. Raises UnknownThreadError for a thread that must exist and does not, ModelChoiceError,
    SettingsError.
    """
    settings = Settings.load(choice.workspace, checkpointer=choice.checkpointer)
    with open_database(settings) as saver:
        kept = kept_options(saver, thread) if thread else None
        if must_exist and kept is None:
            raise UnknownThreadError(thread or "", thread_ids(saver))
        options = _options(choice, kept or {})
        services = make_services(_chosen(settings, options, choice), yes=choice.yes)
        try:
            services.models.choose(None)
        except ModelError as error:
            raise ModelChoiceError(str(error)) from error
        name = thread or f"t-{secrets.token_hex(4)}"
        runs = wire(services).compile(checkpointer=saver, store=store_of(saver), name="skills-agent")
        yield Session(
            name,
            runs,
            config_of(name, options),
            settings.workspace,
            services.library.shared,
            without_password(choice.checkpointer or ""),
        )


def _options(choice: Choice, kept: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(kept)
    if choice.skills_dirs:
        options["skills_dirs"] = [str(folder) for folder in choice.skills_dirs]
    if choice.model:
        options["model"] = choice.model
    return options


def _chosen(settings: Settings, options: Mapping[str, Any], choice: Choice) -> Settings:
    folders = tuple(Path(folder) for folder in options.get("skills_dirs", ()))
    return replace(
        settings,
        skills_dirs=(*settings.skills_dirs, *folders),
        model=options.get("model") or settings.model,
        approval=choice.approval or settings.approval,
    )


def _outcome(thread: str, snapshot: StateSnapshot, calls: list[Any]) -> Outcome:
    values = snapshot.values
    questions = tuple(
        Question(interrupt.id, interrupt.value["action_requests"], interrupt.value["review_configs"])
        for interrupt in snapshot.interrupts
    )
    return Outcome(
        thread=thread,
        status=status_of(snapshot),
        answer=values.get("answer") or "",
        loaded=sorted(active_skills(values.get("skills_loaded"))),
        usage=values.get("usage"),
        calls=calls,
        questions=questions,
    )


def status_of(snapshot: StateSnapshot) -> Status:
    """Tell whether a thread is done, waits for a person, or was cut off."""
    if snapshot.interrupts:
        return "waiting"
    # `snapshot.next` leaves out tasks that a deferred node still waits for.
    return "unfinished" if snapshot.tasks else "done"
