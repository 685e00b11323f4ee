"""One turn of a conversation: run, ask the person, run again, and say what came of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from pydantic import ValidationError

from skills_agent.graph.cli.approval import all_alike, ask_person, each_its_own, question_text
from skills_agent.graph.cli.errors import RunFailedError, expected_errors
from skills_agent.graph.cli.options import Choice
from skills_agent.graph.cli.outcome import Outcome, Question
from skills_agent.graph.cli.printing import echo, is_terminal, print_json
from skills_agent.graph.cli.progress import View
from skills_agent.graph.cli.session import Session, open_session
from skills_agent.graph.cli.signals import (
    INTERRUPTED,
    draining,
    ending_on_sigterm,
    exit_code_of,
    farewell,
)
from skills_agent.graph.cli.views import open_view
from skills_agent.graph.models.errors import ModelError
from skills_agent.graph.threads.errors import DatabaseError, ThreadError
from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.policy.grants import grant_fault
from skills_agent.skills.policy.patterns import GRAMMAR
from skills_agent.skills.policy.verdict import ApprovalNeededError

WAITING = 3


@contextmanager
def session_of_a_run(
    choice: Choice, thread: str | None, *, as_json: bool, must_exist: bool = False
) -> Iterator[Session]:
    """Open a thread as `open_session` does; where its database goes away in the run, say how to go on."""
    session: Session | None = None
    try:
        with open_session(choice, thread, must_exist=must_exist) as session:
            yield session
    except DatabaseError as error:
        if session is None:
            raise
        command = session.resume_command()
        if as_json:
            print_json({"thread": session.thread, **_failure(error, command)})
        raise RunFailedError(session.thread, error, command) from error


def ask_once(session: Session, question: str, skills: Sequence[str], *, as_json: bool) -> None:
    """Ask one question and exit; wrong usage when a skill does not exist."""
    check_skills(session, skills)

    def run(view: View) -> Outcome:
        view.did("thread", session.thread)
        if session.now().questions:
            view.did("note", "the open question of this thread is dropped: you said something new")
        return session.ask(question, skills, view)

    _run_once(session, run, as_json=as_json)


def resume_once(session: Session, decision: Mapping[str, Any] | list[Any] | None, *, as_json: bool) -> None:
    """Go on with a thread and exit; without a decision the person is asked, where there is one.

    One decision is for all open calls, a list has one for each.
    """
    now = session.now()
    if now.status == "done":
        raise ThreadError(f"Thread {session.thread} has nothing to resume: its last turn is answered.")
    if now.status == "unfinished":
        if decision is not None:
            raise ThreadError(
                f"Thread {session.thread} has no open question: it was cut off. "
                f"To go on: {session.resume_command()}"
            )
        _run_once(session, session.go_on, as_json=as_json)
    elif isinstance(decision, list):
        answers = each_its_own(now.questions, decision)
        try:
            _run_once(session, partial(session.decide, answers), as_json=as_json)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise click.UsageError(f"{told}. The question stays open.") from error
    elif decision is not None:
        if fault := next(_faults(now.questions, decision), None):
            raise click.UsageError(f"the approval cannot be granted so: {fault}.")
        answers = all_alike(now.questions, decision)
        _run_once(session, partial(session.decide, answers), as_json=as_json)
    else:
        _run_once(session, lambda _: now, as_json=as_json)


def _faults(questions: Sequence[Question], decision: Mapping[str, Any]) -> Iterator[str]:
    """Yield why an answer does not fit an open call, before anything is run."""
    grant = decision.get("grant")
    for question, request in ((each, request) for each in questions for request in each.requests):
        call = GRAMMAR.call(request["name"], request["args"])
        if grant and not question.takes_grant(request):
            yield "the outcome of a call is unknown, and the answer to that holds for this call alone"
        elif grant and (fault := grant_fault(grant["scope"], grant.get("pattern"), call)):
            yield fault


def check_skills(session: Session, skills: Sequence[str]) -> None:
    """Refuse names of skills that do not exist, with those that do."""
    for name in skills:
        try:
            session.registry.refresh().find(name)
        except UnknownSkillError as error:
            raise click.UsageError(str(error)) from error


def take_turn(session: Session, run: Callable[[View], Outcome], *, quiet: bool = False) -> Outcome:
    """Run until there is an answer, or a question that nobody answers now.

    Raises RunFailedError for a model that could not answer, and where a call needs an approval that must
    not be asked for. Ctrl-C and SIGTERM end the process when the run is drained; the thread keeps what
    was done.
    """
    try:
        outcome = _run(session, run, quiet=quiet)
        while outcome.questions and is_terminal() and not quiet and not session.control.drain_requested:
            with ending_on_sigterm(session.resume_command()):
                decisions = ask_person(outcome.questions)
            if decisions is None:
                return outcome
            outcome = _run(session, partial(session.decide, decisions))
    except ModelError as error:
        raise RunFailedError(session.thread, error, session.resume_command()) from error
    except ApprovalNeededError as error:
        raise RunFailedError(session.thread, error, session.resume_command("--approval", "ask")) from error
    except KeyboardInterrupt:
        click.echo(farewell(INTERRUPTED, session.resume_command()), err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    code = exit_code_of(session.control)
    if code and outcome.status == "unfinished":
        click.echo(farewell(code, session.resume_command()), err=True)
        raise click.exceptions.Exit(code)
    return outcome


def _run(session: Session, run: Callable[[View], Outcome], *, quiet: bool = False) -> Outcome:
    with draining(session.control, session.resume_command()), open_view(quiet=quiet) as view:
        return run(view)


def _failure(error: Exception, command: str) -> dict[str, Any]:
    """Return what a machine reads of a run that stopped on an error; the command goes on from there."""
    return {"status": "error", "error": str(error), "resume": command}


def tell(session: Session, outcome: Outcome) -> None:
    """Print the answer, or the open question and the command that answers it."""
    click.echo()
    if not outcome.questions:
        echo(outcome.answer.strip() or "(The model gave no text.)")
        return
    for question in outcome.questions:
        click.echo(question_text(question))
    click.echo(f"\nTo run it: {session.resume_command('--approve')}")


def _run_once(session: Session, run: Callable[[View], Outcome], *, as_json: bool) -> None:
    try:
        outcome = take_turn(session, run, quiet=as_json)
    except RunFailedError as error:
        if as_json:
            print_json({**session.now().as_json(""), **_failure(error.cause, error.command)})
        raise
    except expected_errors() as error:
        if as_json:
            print_json({**session.now().as_json(""), **_failure(error, session.resume_command())})
        raise
    if as_json:
        print_json(outcome.as_json(session.resume_command("--approve")))
    else:
        tell(session, outcome)
    if outcome.questions:
        raise click.exceptions.Exit(WAITING)
