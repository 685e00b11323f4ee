"""What the offline model says. Every answer ends with what it is."""

import re
import shlex
from collections.abc import Sequence

from skills_agent.graph.models.offline.filling import Call
from skills_agent.graph.models.offline.output import relevant_lines
from skills_agent.graph.models.offline.prompt import Result, Situation, Skill, exit_code, stream, was_run
from skills_agent.graph.models.offline.request import Request
from skills_agent.graph.models.offline.steps import prescribed_steps

NOTE = "(Offline model: not a language model, but fixed rules that chose the skill and what to run.)"
MAX_LINES = 60
_MAX_WARNINGS = 5
_MAX_ERRORS = 15
_MAX_SKILLS = 20
_MAX_DESCRIPTION = 160
_MAX_LINE = 400
_BUDGET = re.compile(r"The budget of [^\n]*? is spent")


def closed(*paragraphs: str) -> str:
    """Return an answer of paragraphs, with the note at its end."""
    return "\n\n".join([*(paragraph for paragraph in paragraphs if paragraph), NOTE])


def from_runs(skill: str, runs: Sequence[Result], request: Request) -> str:
    """Answer from what scripts printed; where one succeeded, those that failed are told in a line."""
    good = [run for run in runs if exit_code(run) == 0]
    paragraphs = [paragraph for run in good for paragraph in _from_success(skill, run, request)]
    for run in runs:
        if run not in good:
            paragraphs += [_failure_line(skill, run)] if good else _from_failure(skill, run)
    return closed(*paragraphs)


def lacking(skill: str, script: str, missing: Sequence[str]) -> str:
    """Ask for what a script needs and the request does not name."""
    return closed(
        f"The skill {skill} answers this with `{script}`, but the request does not name {_and(missing)}. "
        "Please ask again and name it."
    )


def no_tool(skill: str, calls: Sequence[Call], status: str) -> str:
    """Answer what would be run, where scripts cannot be."""
    lines = "\n".join(shlex.join([call.script, *call.args]) for call in calls)
    return closed(
        f"{_stopped(status)}The skill {skill} would answer this by running:",
        _fenced(lines),
        "No tool to run scripts is offered in this step, so there is no result to report.",
    )


def steps(skill: Skill, request: Request) -> str:
    """Answer with what a skill without scripts prescribes."""
    found = prescribed_steps(skill.instructions, request)
    scripts = any(file.type == "script" for file in skill.files)
    why = "shows no script to run for this" if scripts else "has no script to run"
    lead = f"The skill {skill.name} {why}; its instructions are the answer."
    if found is None:
        return closed(lead, _bounded(skill.instructions))
    under = f' under "{found.title}"' if found.title else ""
    listed = "\n".join(f"{number}. {item}" for number, item in enumerate(found.items, start=1))
    more = f"({found.omitted} more in the skill's instructions.)" if found.omitted else ""
    references = [file.path for file in skill.files if file.type == "reference"]
    further = f"More detail is in its references: {', '.join(references[:10])}." if references else ""
    return closed(f"{lead} It prescribes{under}:", listed, more, further)


def none_fits(situation: Situation) -> str:
    """Answer that no skill fits, and list what there is."""
    stopped = _stopped(situation.status)
    if not situation.catalog:
        return closed(f"{stopped}There are no skills here, and without one the offline model can do nothing.")
    listed = [f"- {name}: {_short(description)}" for name, description in situation.catalog[:_MAX_SKILLS]]
    hidden = len(situation.catalog) - len(listed)
    more = f"- and {hidden} more" if hidden else ""
    return closed(
        f"{stopped}No skill fits this request. These are available:",
        "\n".join(filter(None, [*listed, more])),
        "Ask for one of these tasks, or name a skill: `/name` and what it should work on.",
    )


def not_loaded(name: str, reason: str) -> str:
    """Answer that the skill which fits could not be loaded."""
    return closed(f"The skill {name} fits this request, but it could not be loaded: {_one_line(reason)}")


def nothing_asked() -> str:
    """Answer a prompt without a request."""
    return closed("There is no request to work on.")


def _from_failure(skill: str, run: Result) -> list[str]:
    if not was_run(run):
        return [_failure_line(skill, run)]
    said = stream(run, "stderr") or stream(run, "stdout")
    tail = "\n".join(said.splitlines()[-_MAX_ERRORS:])
    return [
        f"{_script(skill, run)} did not succeed{_called_with(run)}: {_outcome(run)}.",
        f"It said:\n\n{_fenced(tail)}" if tail else "It said nothing.",
    ]


def _failure_line(skill: str, run: Result) -> str:
    if not was_run(run):
        return (
            f"{_script(skill, run)} was not run{_called_with(run)}. The reason given: {_one_line(run.text)}"
        )
    said = (stream(run, "stderr") or stream(run, "stdout")).splitlines()
    why = f", {_one_line(said[-1])}" if said else ""
    return f"{_script(skill, run)} did not succeed{_called_with(run)}: {_outcome(run)}{why}"


def _outcome(run: Result) -> str:
    code = exit_code(run)
    return run.text.splitlines()[0] if code is None else f"exit code {code}"


def _from_success(skill: str, run: Result, request: Request) -> list[str]:
    paragraphs = [f"{_script(skill, run)} was run{_called_with(run)}."]
    output = stream(run, "stdout")
    relevant = relevant_lines(output, request, f"{skill} {run.args.get('path', '')}")
    if not output.strip():
        paragraphs.append("It succeeded and printed nothing.")
    elif relevant:
        paragraphs.append("Most relevant to the question:\n\n" + _fenced("\n".join(relevant)))
        paragraphs.append("Its whole output:\n\n" + _bounded(output))
    else:
        paragraphs.append("Its output:\n\n" + _bounded(output))
    warnings = stream(run, "stderr").splitlines()
    if warnings:
        paragraphs.append("It also reported:\n\n" + _fenced("\n".join(warnings[:_MAX_WARNINGS])))
    return paragraphs


def _script(skill: str, run: Result) -> str:
    return f"`{run.args.get('path', 'the script')}` of the skill {run.args.get('skill') or skill}"


def _called_with(run: Result) -> str:
    args = run.args.get("args")
    if not isinstance(args, list) or not args:
        return ""
    return f" with `{shlex.join(str(arg) for arg in args)}`"


def _stopped(status: str) -> str:
    match = _BUDGET.search(status)
    return f"{match[0]}, so the work stops here. " if match else ""


def _bounded(text: str) -> str:
    lines = text.strip("\n").splitlines()
    shown = "\n".join(lines[:MAX_LINES])
    left = len(lines) - MAX_LINES
    # Markdown is meant to be read as such; everything else keeps its columns.
    whole = shown if re.search(r"^#{1,4} \S", shown, re.MULTILINE) else _fenced(shown)
    return f"{whole}\n\n[{left} more lines]" if left > 0 else whole


def _fenced(text: str) -> str:
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    return f"{'`' * ticks}\n{text}\n{'`' * ticks}"


def _short(description: str) -> str:
    first = re.split(r"(?<=[.!?])\s", description.strip(), maxsplit=1)[0]
    return first if len(first) <= _MAX_DESCRIPTION else first[:_MAX_DESCRIPTION].rsplit(" ", 1)[0] + " …"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_LINE]


def _and(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
