"""One thread at the command line: open it, invoke the graph in it, and print the result."""

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import click
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.build import wire
from skills_agent.graph.cli.approval import ask_person, is_for_words, make_answer, question_text
from skills_agent.graph.cli.garbage import imports_done
from skills_agent.graph.cli.options import shell_command
from skills_agent.graph.cli.printing import echo, is_terminal, print_json
from skills_agent.graph.cli.progress import STREAM_MODES, Progress
from skills_agent.graph.cli.signals import INTERRUPTED, draining, ending_on_sigterm, exit_code_of, leave
from skills_agent.graph.langgraph_inside import thread_ids
from skills_agent.graph.machine import sandbox_here
from skills_agent.graph.models.errors import ModelError
from skills_agent.graph.models.provider import default_model
from skills_agent.graph.places import process_environment, state_folder
from skills_agent.graph.serialisation import strict_saver
from skills_agent.graph.services import Host, Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of, is_eval_thread, open_database, options_of
from skills_agent.graph.threads.errors import DatabaseError, ThreadError, UnknownThreadError
from skills_agent.graph.threads.requests import Turn, request_in, turn_of
from skills_agent.graph.threads.thread import ThreadStatus, status_of
from skills_agent.nodes.asking import REFUSED, AskedAttempt
from skills_agent.nodes.question import contents_of
from skills_agent.skills.errors import DetailedError, SkillsAgentError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.question import whole
from skills_agent.skills.policy.risk import Approval, Risk
from skills_agent.skills.policy.verdict import AnswerRefusedError, ApprovalNeededError
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.visible import visible_line
from skills_agent.state.context import Context
from skills_agent.state.endings import fault_of
from skills_agent.state.records import VerdictRecord, active_skills
from skills_agent.state.schema import AgentInput
from skills_agent.state.transcript import last_ai

GraphInput = AgentInput | Command[Any] | None
"""A message, an answer to open questions, or nothing: a turn that was cut off goes on."""

WAITING: Final = 3
"""Exit code of a turn that waits for an approval."""


class TurnError(DetailedError, SkillsAgentError):
    """A turn stopped on an error; the thread keeps what was done, and the command goes on from there."""

    code = "turn-failed"
    sentence = "{cause} To go on from there: {command}"
    cause: Exception
    command: str

    def as_json(self) -> dict[str, str]:
        """Return what `--json` says of it."""
        return {"status": "error", "error": str(self.cause), "resume": self.command}


class IncompleteAnswerError(DetailedError, SkillsAgentError):
    """A turn ended with an answer that is not whole; what there is of it was printed."""

    code = "answer-incomplete"
    sentence = "The answer is not whole: it was {fault}."
    fault: str


@dataclass
class OpenThread:
    """An open thread: invoke the graph in it, and read its state as the last invocation left it."""

    name: str
    agent: CompiledAgent
    options: Mapping[str, Any]
    """What is kept with the thread: its skill folders, model and system prompt."""
    services: Services
    saver: BaseCheckpointSaver[Any]
    """Of all threads of the database."""
    command: Callable[..., str]
    """Returns a command for the same workspace and database, from its words."""
    quiet: bool
    """With `--json`: no progress is shown, nobody is asked, and one JSON object is printed."""
    redaction: Redaction | None = None
    """Takes secrets out of that object; None: the person wants them in it."""
    control: RunControl = field(default_factory=RunControl)
    """A signal drains an invocation by it: running scripts end, and no node begins."""
    context: Context = field(default_factory=Context)
    config: RunnableConfig = field(init=False)
    snapshot: StateSnapshot = field(init=False)
    seconds: float = 0.0
    """How long the agent worked on this turn in this command; a person's time to answer is not in it."""
    steps: int = 0
    """What nodes wrote in this command: where there is more than one, the first is stored."""
    verdicts: dict[str, VerdictRecord] = field(init=False)
    """The last verdict on every call of this turn, as far as this command has seen it."""

    def __post_init__(self) -> None:
        self.config = config_of(self.name, self.options)
        self.snapshot = self.agent.get_state(self.config)
        self.verdicts = dict(self.snapshot.values.get("verdicts") or {})

    @property
    def model(self) -> str:
        """Return the name of the model that answers here."""
        settings = self.agent.services.settings
        return self.context.model or settings.model or default_model(process_environment())

    def use_model(self, name: str) -> None:
        """Let a model answer from the next turn on, and keep it with the thread.

        Raises ModelError for one that the operator does not allow, or that cannot be asked.
        """
        context = Context(model=name)
        self.services.models.choose(context)
        self.context = context
        self.options = {**self.options, "model": name}
        self.config = config_of(self.name, self.options)

    @property
    def workspace(self) -> Path:
        """Return the folder where the agent works."""
        return self.services.settings.workspace

    @property
    def registry(self) -> Registry:
        """Return the skills of this thread's sources."""
        return self.services.library.shared

    @property
    def status(self) -> ThreadStatus:
        """Return whether the thread is done, waits for a person, or was cut off."""
        return status_of(self.snapshot)

    @property
    def answer_fault(self) -> IncompleteAnswerError | None:
        """Return what to say of an answer that is not whole."""
        fault = fault_of(last_ai(self.snapshot.values.get("messages") or []))
        return IncompleteAnswerError(fault) if fault and self.status == "done" else None

    @property
    def interrupts(self) -> Sequence[Interrupt]:
        """Return the open questions."""
        return self.snapshot.interrupts

    @property
    def loaded(self) -> list[str]:
        """Return the names of the loaded skills."""
        return sorted(active_skills(self.snapshot.values.get("skills_loaded")))

    def invoke(self, graph_input: GraphInput) -> None:
        """Let the agent work until it has an answer or a question."""
        began = monotonic()
        if isinstance(graph_input, dict):
            self.verdicts.clear()
            self.seconds = 0.0
        try:
            progress = Progress(self.verdicts, quiet=self.quiet)
            with (
                draining(self.control, self.resume_command()),
                progress.spinner(),
                # A drained invocation is one that is not finished: its steps are kept.
                suppress(GraphDrained),
            ):
                parts: Iterator[Any] = self.agent.stream(
                    graph_input,
                    self.config,
                    context=self.context,
                    stream_mode=list(STREAM_MODES),
                    durability="sync",
                    version="v2",
                    control=self.control,
                )
                for part in parts:
                    progress.take(part)
                    self.steps += part["type"] == "updates"
        finally:
            self.snapshot = self.agent.get_state(self.config)
            self.seconds += monotonic() - began

    def as_json(self) -> dict[str, Any]:
        """Return the thread for a machine, with the command that answers its open question."""
        values = self.snapshot.values
        facts: dict[str, Any] = {
            "thread": self.name,
            "status": self.status,
            "answer": values.get("answer") or "",
            "loaded": self.loaded,
            "usage": values.get("usage"),
            "calls": list(self.verdicts.values()),
        }
        if self.answer_fault:
            facts |= {"status": "incomplete", "error": str(self.answer_fault)}
        if self.interrupts:
            questions = [{"id": interrupt.id, **interrupt.value} for interrupt in self.interrupts]
            facts |= {"interrupt": questions[0], "interrupts": questions}
            facts["resume"] = self.approve_command()
        return facts

    def print_facts(self, facts: Mapping[str, Any]) -> None:
        """Print one JSON object, which says so (`redacted`) if secrets were taken out of it."""
        if self.redaction is None:
            print_json(facts)
            return
        # With these a machine goes on; no password is ever in them.
        kept = {name: facts[name] for name in ("thread", "resume") if name in facts}
        shown = {**self.redaction.whole(facts), **kept}
        print_json({**shown, "redacted": True} if shown != facts else shown)

    def view(self, tool: str, args: Mapping[str, Any]) -> str:
        """Return all of a call that a person has to look at before it runs, uncut."""
        policy = self.services.policy
        return whole(contents_of(policy.grammar.call(tool, args), policy))

    def earlier_turn(self, said: AgentInput) -> Turn | None:
        """Return the turn of a request that was sent before; None for a new one. Raises RequestIdError."""
        request = request_in(said)
        return turn_of(request, self.snapshot, is_done=self.status == "done") if request else None

    def look_back(self, turn: Turn) -> None:
        """See the thread as a turn left it that is over."""
        values = turn.values(self.snapshot.values)
        self.snapshot = self.snapshot._replace(values=values, next=(), tasks=(), interrupts=())
        self.verdicts.clear()

    @property
    def attempts(self) -> list[int]:
        """Return which attempts of calls that were cut off the open questions are about."""
        asked = (AskedAttempt.of(interrupt.value) for interrupt in self.interrupts)
        return sorted({of.attempt for of in asked if of})

    def resume_input(
        self, decision: Mapping[str, Any] | list[Any] | None, attempts: Collection[int] = ()
    ) -> GraphInput:
        """Return the input that goes on: with one decision for all open calls, or one for each.

        `attempts` are those of cut-off calls that the decision is for. Raises ThreadError where there is
        nothing to resume, or nothing to answer, or where it is for another attempt.
        """
        if self.status == "done":
            raise ThreadError(f"Thread {self.name} has nothing to resume: its last turn is answered.")
        if decision is None:
            return None
        if self.status == "unfinished":
            command = self.resume_command()
            raise ThreadError(f"Thread {self.name} has no open question: it was cut off. To go on: {command}")
        self._check_attempts(decision, attempts)
        return make_answer(self.interrupts, decision)

    def _check_attempts(self, decision: Mapping[str, Any] | list[Any], attempts: Collection[int]) -> None:
        """Refuse an answer to another attempt, and a second approval that does not say of which one it is.

        A command that is typed again would run a call once more after each crash.
        """
        asked = self.attempts
        if attempts and sorted(set(attempts)) != asked:
            of = f"attempt {', '.join(map(str, asked))} of a call" if asked else "no call that was cut off"
            raise ThreadError(
                f"The open question of thread {self.name} is about {of}. Read it, and answer again: "
                f"{self.resume_command()}"
            )
        decisions = decision if isinstance(decision, list) else [decision]
        is_approved = any(isinstance(each, dict) and each.get("type") != "reject" for each in decisions)
        if is_approved and not attempts and max(asked, default=1) > 1:
            raise click.UsageError(f"say which attempt is answered: {self.approve_command()}")

    def approve_command(self) -> str:
        """Return the command that approves the open calls."""
        words = [word for attempt in self.attempts for word in ("--attempt", str(attempt))]
        return self.resume_command("--approve", *words)

    def resume_command(self, *answer: str) -> str:
        """Return the command that finishes this thread's turn, for the shell the person is in."""
        return self.command("resume", self.name, *answer)


def person_says(
    text: str | list[str | dict[str, str]], skills: Sequence[str] = (), request_id: str | None = None
) -> AgentInput:
    """Return the input for something that a person says; the skills are loaded first."""
    return AgentInput(messages=[HumanMessage(content=text, id=request_id)], skills=list(skills))


@contextmanager
def open_thread(
    name: str | None,
    *,
    must_exist: bool = False,
    newest: bool = False,
    quiet: bool = False,
    show_secrets: bool = False,
    workspace: Path | None = None,
    checkpointer: str | None = None,
    skills_dirs: Sequence[Path] = (),
    model: str | None = None,
    system_prompt: str | None = None,
    approval: Approval | None = None,
    yes: frozenset[Risk] = frozenset(),
) -> Iterator[OpenThread]:
    """Open a thread, or begin one, with the options it was started with; explicit ones win.

    With `newest` it is the one that moved last. Its skill folders, model and system prompt are stored;
    `approval` and `yes` never are. Raises UnknownThreadError, SettingsError, ModelError, and TurnError where
    the database goes away.
    """
    if show_secrets and not quiet:
        raise click.UsageError("--show-secrets goes with --json")
    if newest and name:
        raise click.UsageError("--continue takes the newest thread, and --thread another one: leave out one")
    settings = Settings.load(workspace, checkpointer=checkpointer)
    thread: OpenThread | None = None
    stored: Mapping[str, Any] | None = None
    try:
        with open_database(settings) as database:
            if newest:
                name, must_exist = _newest(database.saver), True
            stored = options_of(strict_saver(database.saver, {}, name), name) if name else None
            if must_exist and stored is None:
                raise UnknownThreadError(name or "", thread_ids(database.saver))
            chosen = {
                "skills_dirs": [str(folder) for folder in skills_dirs],
                "model": model,
                "system_prompt": system_prompt,
            }
            options = {**(stored or {}), **{option: value for option, value in chosen.items() if value}}
            services = Services(Host(_apply_options(settings, options, approval), yes=yes))
            services.models.choose(Context())
            imports_done()
            _finish_looks(services)
            graph = wire(services)
            name = name or f"t-{secrets.token_hex(4)}"
            thread = OpenThread(
                name=name,
                agent=graph.compile(checkpointer=database.saver, store=database.store, name="skills-agent"),
                options=options,
                services=services,
                saver=database.saver,
                command=partial(shell_command, workspace=settings.workspace, checkpointer=checkpointer),
                quiet=quiet,
                redaction=None if show_secrets else services.audit.redaction,
            )
            yield thread
    except DatabaseError as error:
        is_kept = thread is not None and (
            stored is not None or thread.steps > 1 or thread.snapshot.created_at is not None
        )
        if thread is None or not is_kept:
            raise
        failure = TurnError(error, thread.resume_command())
        if quiet:
            thread.print_facts({"thread": thread.name, **failure.as_json()})
        raise failure from error


def _finish_looks(services: Services) -> None:
    """Look at what runs made that were cut off with their agent. Without any, no runner is needed."""
    is_pending = sandbox_here().pending_looks(state_folder(services.settings))
    if is_pending and isinstance(runner := services.runner, OwnRunner):
        runner.finish_looks()


def _newest(saver: BaseCheckpointSaver[Any]) -> str:
    # What eval cases left is nobody's conversation.
    names = [name for name in thread_ids(saver) if not is_eval_thread(name)]
    if not names:
        raise ThreadError('There is no thread to go on with here. Begin one: skills-agent ask "QUESTION"')
    return names[0]


def _apply_options(settings: Settings, options: Mapping[str, Any], approval: Approval | None) -> Settings:
    return replace(
        settings,
        skills_dirs=(*settings.skills_dirs, *map(Path, options.get("skills_dirs", ()))),
        model=options.get("model") or settings.model,
        system_prompt=options.get("system_prompt") or settings.system_prompt,
        approval=approval or settings.approval,
    )


def take_turn(thread: OpenThread, graph_input: GraphInput) -> None:
    """Invoke the graph until there is an answer, or a question that nobody answers now.

    Raises TurnError for a model that could not answer, and where a call needs an approval that must not be
    asked for. Ctrl-C and SIGTERM end the process when the invocation is drained.
    """
    try:
        if graph_input is not None or not thread.interrupts:
            thread.invoke(graph_input)
        while thread.interrupts and is_terminal() and not thread.quiet and not thread.control.drain_requested:
            with ending_on_sigterm(thread.resume_command()):
                answer = ask_person(thread.interrupts, thread.view, thread.workspace)
            if answer is None:
                return
            thread.invoke(answer)
    except ModelError as error:
        raise TurnError(error, thread.resume_command()) from error
    except ApprovalNeededError as error:
        raise TurnError(error, thread.resume_command("--approval", "ask")) from error
    except (OSError, SystemExit):
        # Whoever read the output is gone (`| head -1`; rich exits then), or its disk is full.
        if thread.status == "unfinished":
            click.echo(f"The turn was cut off. To go on: {thread.resume_command()}", err=True)
        raise
    except KeyboardInterrupt:
        leave(INTERRUPTED, thread.resume_command())
    code = exit_code_of(thread.control)
    if code and thread.status == "unfinished":
        leave(code, thread.resume_command())


def run_once(thread: OpenThread, graph_input: GraphInput) -> None:
    """Take one turn and print its result; with `--json`, also that of a turn that stopped on an error."""
    try:
        take_turn(thread, graph_input)
        if isinstance(graph_input, Command):
            _check_answered(thread)
    except SkillsAgentError as error:
        if thread.quiet:
            failure = error if isinstance(error, TurnError) else TurnError(error, thread.resume_command())
            thread.print_facts({**thread.as_json(), **failure.as_json()})
        raise
    print_turn(thread)


def _check_answered(thread: OpenThread) -> None:
    """Raise AnswerRefusedError where the answer was not taken: the question is open again."""
    for question in (interrupt.value for interrupt in thread.interrupts):
        if fault := question.get(REFUSED):
            raise AnswerRefusedError(fault, question, {})


def print_turn(thread: OpenThread) -> None:
    """Print the answer; or the open question with the command that answers it, and exit with 3.

    Raises IncompleteAnswerError where the answer is not whole.
    """
    if thread.quiet:
        thread.print_facts(thread.as_json())
    elif thread.interrupts:
        questions = "\n".join(map(question_text, thread.interrupts))
        command, does = visible_line(thread.approve_command()), "run"
        if all(map(is_for_words, thread.interrupts)):
            command, does = visible_line(f"{thread.resume_command('--answer')} TEXT"), "answer"
        click.echo(f"\n{questions}\n\nTo {does} it: {command}")
    else:
        answer = (thread.snapshot.values.get("answer") or "").strip()
        _print_answer(thread, answer or "(The model gave no text.)")
    if thread.interrupts:
        raise click.exceptions.Exit(WAITING)
    if thread.answer_fault:
        raise thread.answer_fault


def _print_answer(thread: OpenThread, answer: str) -> None:
    if not is_terminal():
        echo(f"\n{answer}", "prose")
        return
    from skills_agent.graph.cli.answer import print_markdown
    from skills_agent.graph.cli.transcript import cost_text

    click.echo()
    print_markdown(answer)
    if usage := thread.snapshot.values.get("usage"):
        click.secho(f"\n{cost_text(usage['this_turn'])}, {thread.seconds:.1f} s", dim=True)
