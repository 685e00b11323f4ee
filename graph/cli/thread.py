"""One thread at the command line: open it, take a turn in it, and print what came of it."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt

from skills_agent.graph.build import wire
from skills_agent.graph.cli.approval import Question, ask_person
from skills_agent.graph.cli.model import choose_at_first
from skills_agent.graph.cli.options import shell_command
from skills_agent.graph.cli.printing import (
    echo,
    is_terminal,
    print_json,
    print_markdown,
    print_note,
    waiting_text,
)
from skills_agent.graph.cli.progress import Progress
from skills_agent.graph.cli.signals import (
    INTERRUPTED,
    TERMINATED,
    draining,
    ending_on_sigterm,
    exit_code_of,
    leave,
)
from skills_agent.graph.hooks import first, hook
from skills_agent.graph.langgraph_inside import thread_ids
from skills_agent.graph.machine import sandbox_here
from skills_agent.graph.serialisation import strict_saver
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of, newest_of, open_database, options_of
from skills_agent.graph.threads.errors import DatabaseError, unknown_thread
from skills_agent.graph.threads.received import asked_attempts
from skills_agent.graph.threads.thread import ThreadStatus, status_of
from skills_agent.graph.user_folders import state_folder
from skills_agent.nodes.interrupts import REFUSED
from skills_agent.nodes.model_errors import ModelCallError, ModelError
from skills_agent.skills.errors import DetailedError, SkillsAgentError, UnknownSkillError, did_you_mean
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.policy.verdict import AnswerRefusedError, ApprovalNeededError
from skills_agent.skills.risk import Risk
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.visible import visible_line
from skills_agent.state.context import Context
from skills_agent.state.endings import fault_of
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentInput
from skills_agent.state.transcript import last_ai

GraphInput = AgentInput | Command[Any] | None
"""A message, an answer to open questions, or nothing: a turn that was cut off goes on."""

WAITING: Final = 3
"""Exit code of a turn that waits for an approval."""
_NAME: Final = re.compile(r"/(?P<name>[^\s/]+)(?=\s|$)")


class TurnError(DetailedError, SkillsAgentError):
    """A turn stopped on an error; the thread keeps what was done, and the command goes on from there."""

    code = "turn-failed"
    sentence = "{cause} To go on from there: {command}"
    cause: Exception
    command: str

    @property
    def facts(self) -> dict[str, str]:
        """Return what a machine is told of it."""
        return {"status": "error", "error": str(self.cause), "resume": self.command}


INCOMPLETE: Final = "answer-incomplete"
"""The code of the error after an answer that is not whole; what there is of it was printed."""


class OpenThread:
    """An open thread: invoke the graph in it, and read its state as the last invocation left it."""

    def __init__(
        self, name: str, agent: CompiledAgent, services: Services, options: Mapping[str, Any], *, quiet: bool
    ) -> None:
        """Read the thread. `options` are kept with it."""
        self.name = name
        self.agent = agent
        self.services = services
        self.context = Context(model=options.get("model"))
        """A model that a person chose for the thread: no skill chooses another one."""
        self.quiet = quiet
        """With `--json`: no progress is shown, nobody is asked, and one JSON object is printed."""
        self.control = RunControl()
        """A signal drains the newest invocation by it: scripts end, a model is left, and no node begins."""
        self.config = config_of(name, options)
        self.snapshot = agent.get_state(self.config)
        self.progress = Progress(self.snapshot.values.get("verdicts") or {}, quiet=quiet)

    @property
    def catalog(self) -> Catalog:
        """Return the skills of this thread's sources, as they are now."""
        return self.services.library.shared.refresh()

    @property
    def is_stored(self) -> bool:
        """Return whether the thread can be gone on with: where a second step ended, the first is stored."""
        return self.snapshot.created_at is not None or self.progress.steps > 1

    @property
    def status(self) -> ThreadStatus:
        """Return whether the thread is done, waits for a person, or was cut off."""
        return status_of(self.snapshot)

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal ended the newest invocation before its turn was done."""
        return self.control.drain_requested and self.status == "unfinished"

    @property
    def interrupts(self) -> Sequence[Interrupt]:
        """Return the open questions."""
        return self.snapshot.interrupts

    @property
    def loaded(self) -> list[str]:
        """Return the names of the loaded skills."""
        return sorted(active_skills(self.snapshot.values.get("skills_loaded")))

    @property
    def answer_fault(self) -> str:
        """Return what to say of an answer that is not whole; empty for one that is."""
        fault = fault_of(last_ai(self.snapshot.values.get("messages") or []))
        return f"The answer is not whole: it was {fault}." if fault and self.status == "done" else ""

    def command(self, *words: str) -> str:
        """Return a command for the same workspace, and for the shell the person is in."""
        return shell_command(*words, workspace=self.services.settings.workspace)

    @property
    def resume_command(self) -> str:
        """Return the command that finishes this thread's turn."""
        return self.command("resume", self.name)

    @property
    def attempts(self) -> list[int]:
        """Return which attempts of calls that were cut off the open questions are about."""
        return sorted({of.attempt for of in asked_attempts(self.snapshot).values()})

    @property
    def approve_command(self) -> str:
        """Return the command that approves the open calls."""
        words = [word for attempt in self.attempts for word in ("--attempt", str(attempt))]
        # What the person said in advance holds for the rest of this turn.
        words += [word for risk in sorted(self.services.yes) for word in ("--yes", risk)]
        return self.command("resume", self.name, "--approve", *words)

    def invoke(self, graph_input: GraphInput) -> None:
        """Let the agent work until it has an answer or a question."""
        if isinstance(graph_input, Command) and not self.snapshot.tasks:  # an extra asked, and no node
            first("held").settle(self, graph_input.resume)
            return
        if isinstance(graph_input, dict):
            self.progress.verdicts.clear()
        self.control = RunControl()
        try:
            with (
                draining(self.control, self.resume_command),
                self.progress.spinner(self.control),
                # A drained invocation is one that is not finished: its steps are kept.
                suppress(GraphDrained),
            ):
                parts = self.agent.stream(
                    graph_input,
                    self.config,
                    context=self.context,
                    stream_mode=self.progress.modes,
                    subgraphs=True,
                    durability="sync",
                    version="v2",
                    control=self.control,
                )
                self.progress.follow(parts)
        finally:
            self.snapshot = self.agent.get_state(self.config)
        if self.is_stopped:
            self.progress.stop()

    def as_json(self) -> dict[str, Any]:
        """Return the thread for a machine, with the command that answers its open question."""
        values = self.snapshot.values
        facts: dict[str, Any] = {
            "thread": self.name,
            "status": self.status,
            "answer": values.get("answer") or "",
            "loaded": self.loaded,
            "changes": values.get("changes") or [],
            "held": values.get("held") or [],
            "usage": values.get("usage"),
            "calls": list(self.progress.verdicts.values()),
        }
        if self.answer_fault:
            facts |= {"status": "incomplete", "error": self.answer_fault}
        if self.interrupts:
            questions = [{"id": interrupt.id, **interrupt.value} for interrupt in self.interrupts]
            facts |= {"interrupt": questions[0], "interrupts": questions, "resume": self.approve_command}
        return facts

    def print_facts(self, facts: Mapping[str, Any]) -> None:
        """Print one JSON object, which says so (`redacted`) if secrets were taken out of it."""
        # With these a machine goes on.
        kept = {name: facts[name] for name in ("thread", "resume") if name in facts}
        shown = {**self.services.audit.redaction.whole(facts), **kept}
        print_json({**shown, "redacted": True} if shown != facts else shown)


def says(text: str, attached: str = "") -> AgentInput:
    """Return the input for something that a person says.

    What is attached is in a block of its own: it is no word of the person, and names no skill to load.
    """
    blocks: list[str | dict[Any, Any]] = [{"type": "text", "text": each} for each in (text, attached)]
    return AgentInput(messages=[HumanMessage(content=blocks if attached else text)])


def unknown_name(thread: OpenThread, text: str, commands: Sequence[str] = ()) -> str:
    """Say that a text begins with `/NAME` and nothing usable has that name; empty for any other text."""
    match = _NAME.match(text)
    if match is None or match["name"] == "unload":  # The graph does it, in any client.
        return ""
    catalog = thread.catalog
    try:
        catalog.find(match["name"])
    except UnknownSkillError as error:
        if error.skipped:
            return str(error)
        names = [*commands, *(f"/{skill.name}" for skill in catalog.skills if skill.user_invocable)]
        what = "command and no skill" if commands else "skill"
        return f"There is no {what} {match[0]!r} here. {did_you_mean(match[0], names)}".rstrip()
    return ""


@contextmanager
def open_thread(
    name: str | None,
    *,
    must_exist: bool = False,
    newest: bool = False,
    quiet: bool = False,
    workspace: Path | None = None,
    skills_dirs: Sequence[Path] = (),
    model: str | None = None,
    yes: frozenset[Risk] = frozenset(),
) -> Iterator[OpenThread]:
    """Open a thread, or begin one, with the skill folders and the model that are kept with it; others win.

    With `newest` it is the one that moved last. `yes` is never kept. Raises ThreadError,
    SettingsError, ModelError, and TurnError where the database goes away.
    """
    if newest and name:
        raise click.UsageError("--continue takes the newest thread, and --thread another one: leave out one")
    settings = Settings.load(workspace)
    thread: OpenThread | None = None
    try:
        with open_database(settings) as saver:
            if newest:
                name, must_exist = newest_of(thread_ids(saver)), True
            stored = options_of(strict_saver(saver, {}, name), name) if name else None
            if must_exist and stored is None:
                raise unknown_thread(name or "", thread_ids(saver))
            chosen = {"skills_dirs": [str(folder) for folder in skills_dirs], "model": model}
            options = {**(stored or {}), **{option: value for option, value in chosen.items() if value}}
            kept = replace(
                settings,
                skills_dirs=(*settings.skills_dirs, *map(Path, options.get("skills_dirs", ()))),
                model=options.get("model") or settings.model or choose_at_first(settings, quiet=quiet),
            )
            services = Services(kept, yes=yes)
            services.models.choose(Context())
            _finish_looks(services)
            agent = wire(services).compile(checkpointer=saver, name="skills-agent")
            name = name or f"t-{secrets.token_hex(4)}"
            thread = OpenThread(name, agent, services, options, quiet=quiet)
            for later in hook("held") if thread.snapshot.values.get("held") else ():
                later.keep_decided(thread)
            yield thread
    except DatabaseError as error:
        if thread is None or not thread.is_stored:
            raise
        failure = TurnError(error, thread.resume_command)
        if quiet:
            thread.print_facts({"thread": thread.name, **failure.facts})
        raise failure from error


def _finish_looks(services: Services) -> None:
    """Look at what runs made that were cut off with their agent. Without any, no runner is needed."""
    is_pending = sandbox_here().pending_looks(state_folder(services.settings))
    if is_pending and isinstance(runner := services.runner, OwnRunner):
        runner.finish_looks()


def take_turn(thread: OpenThread, graph_input: GraphInput) -> None:
    """Invoke the graph until there is an answer, a question that nobody answers now, or a signal.

    Raises TurnError for a model that could not answer, and where a call needs an approval that must not be
    asked for. SIGTERM ends the process when the invocation is drained.
    """
    try:
        if graph_input is not None or not thread.interrupts:
            thread.invoke(graph_input)
        while thread.interrupts and is_terminal() and not thread.quiet and not thread.control.drain_requested:
            with ending_on_sigterm(thread.resume_command):
                answer = ask_person(thread.interrupts, thread.services.policy)
            if answer is None:
                return
            thread.invoke(answer)
    except ModelError as error:
        other = ("--model", "NAME") if isinstance(error, ModelCallError) and error.needs_other else ()
        raise TurnError(error, thread.command("resume", thread.name, *other)) from error
    except ApprovalNeededError as error:
        raise TurnError(error, f"SKILLS_AGENT_APPROVAL=ask {thread.resume_command}") from error
    except (OSError, SystemExit):
        # Whoever read the output is gone (`| head -1`; rich exits then), or its disk is full.
        if thread.status == "unfinished":
            click.echo(f"The turn was cut off. To go on: {thread.resume_command}", err=True)
        raise
    if thread.is_stopped and exit_code_of(thread.control) == TERMINATED:
        leave(TERMINATED, thread.resume_command)


def run_once(thread: OpenThread, graph_input: GraphInput) -> None:
    """Take one turn and print its result; with `--json`, also that of a turn that stopped on an error.

    Raises AnswerRefusedError where an answer was not taken: the question is open again.
    """
    try:
        take_turn(thread, graph_input)
        if thread.is_stopped:
            leave(INTERRUPTED, thread.resume_command)
        for question in (
            interrupt.value for interrupt in thread.interrupts if isinstance(graph_input, Command)
        ):
            if fault := question.get(REFUSED):
                raise AnswerRefusedError(fault, question, {})
    except SkillsAgentError as error:
        if thread.quiet:
            failure = error if isinstance(error, TurnError) else TurnError(error, thread.resume_command)
            thread.print_facts({**thread.as_json(), **failure.facts})
        raise
    print_turn(thread)


def print_turn(thread: OpenThread) -> None:
    """Print the answer; or the open question with the command that answers it, and exit with 3.

    Raises SkillsAgentError where the answer is not whole.
    """
    answer = (thread.snapshot.values.get("answer") or "").strip() or "(The model gave no text.)"
    if thread.quiet:
        thread.print_facts(thread.as_json())
    elif thread.interrupts:
        questions = [*map(Question, thread.interrupts)]
        does, command = questions[0].does, thread.approve_command
        if all(question.is_for_words for question in questions):
            does, command = "answer", f"{thread.resume_command} --message TEXT"
        texts = "\n".join(question.text() for question in questions)
        click.echo(f"\n{texts}\n\nTo {does} it: {visible_line(command)}")
    elif is_terminal():
        from skills_agent.graph.cli.transcript import cost_text

        click.echo()
        print_markdown(answer)
        if usage := thread.snapshot.values.get("usage"):
            print_note(f"\n{cost_text(usage['this_turn'])}; thread {thread.name}")
    else:
        echo(f"\n{answer}" if thread.progress.has_said else answer, "prose")
    if thread.interrupts:
        raise click.exceptions.Exit(WAITING)
    if (held := thread.snapshot.values.get("held")) and not thread.quiet:
        click.echo(waiting_text(held, thread.resume_command), err=True)
    if thread.answer_fault:
        raise SkillsAgentError(thread.answer_fault, code=INCOMPLETE)
