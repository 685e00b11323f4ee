"""A large run as it comes from real use: requests, trajectories, answers and faults of many kinds.

All of it is drawn from a seed; the figures are those that `summarise` makes of it.
"""

import random
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import structs

from skills_agent.skills.evals.case import (
    CaseLimits,
    EvalCase,
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    Rubric,
    ScriptCheck,
)
from skills_agent.skills.evals.checks import check
from skills_agent.skills.evals.result import Arm, CheckResult, EvalResult, Outcome, RunHead, Vote
from skills_agent.skills.evals.summarise import summarise
from skills_agent.skills.evals.summary import Summary
from skills_agent.skills.evals.trajectory import LoadedSkill, MadeCall, Spent, Trajectory

_SKILLS: Final = ("csv-report", "text-stats", "pdf-forms", "release-notes")
_REQUESTS: Final = {
    "csv-report": (
        "Sum the amount per region in {file} and say which region sold the most",
        "How many rows of {file} have no customer, and which are they?",
        "Compare the months in {file}: where did returns grow faster than sales?",
        "What is in {file}? Write what you find to report.md, with a table per region",
    ),
    "text-stats": (
        "How many words and sentences has {file}, and which ten words are most frequent?",
        "Is {file} easier to read than its last version? Give me a figure for both",
    ),
    "pdf-forms": (
        "Fill in {file} with the data of the customer in crm.json and tell me what is missing",
        "Which fields of {file} are required?",
    ),
    "release-notes": ("Write the notes of version 2.4 from the commits in {file}",),
}
_NEAR: Final = (
    "Write a parser for CSV files in Rust",
    "What does PDF stand for?",
    "Delete every second line of {file}",
    "Translate {file} into French, and keep the tables as they are",
)
_FILES: Final = ("orders.csv", "q3/sales-emea.csv", "notes.md", "claim-form.pdf", "log.txt")
_REGIONS: Final = ("North", "South", "East", "West", "EMEA", "APAC")
_FAULTS: Final[dict[Outcome, str]] = {
    "error": "RateLimitError: the provider answered 429 four times, the last after 31 seconds.",
    "timeout": "It was given up after 300 seconds, in the 9th call of the model.",
    "refused": "It stopped at a question that nobody answers: run_script wants the network (--yes network).",
}


class _Chances(NamedTuple):
    """How likely a case comes out well."""

    chosen: float
    right: float


_RUNS: Final = {"before": "20261122-0912-c3", "with": "20261123-1820-k7", "without": "20261123-1820-k7"}
_SIDES: Final = {
    "before": _Chances(chosen=0.78, right=0.74),
    "with": _Chances(chosen=0.93, right=0.88),
    "without": _Chances(chosen=0.0, right=0.45),
}


@cache
def large_run(
    cases: int = 200,
    *,
    repeat: int = 1,
    models: tuple[str, ...] = ("openai:gpt-5-mini",),
    baseline: bool = True,
    without: bool = True,
    seed: int = 7,
) -> Summary:
    """Return the summary of a run of so many cases, with a baseline and without the skill where asked for."""
    chance = random.Random(seed)
    asked = tuple(_case(chance, number) for number in range(cases))
    arms: tuple[Arm, ...] = ("with", "without") if without else ("with",)
    head = RunHead(
        id=_RUNS["with"],
        at="2026-11-23T18:20:11+00:00",
        command="skills-agent eval skills --without --baseline last --html report.html",
        program="0.1.0",
        models=models,
        grader="anthropic:claude-sonnet-4-5",
        arms=arms,
        repeat=repeat,
        seed=20261123,
        skills={name: f"{number:x}9c1f" * 12 + "beef" for number, name in enumerate(_SKILLS, 10)},
        cases=asked,
        skipped=("skills/pdf-forms/evals/evals.json#17: the assertion `pixel_diff` is of no known kind.",),
    )
    results = [
        _result(chance, case, model, arm, number, arm)
        for case in asked
        for model in models
        for arm in arms
        if arm == "with" or case.kind == "task"
        for number in range(repeat)
    ]
    if not baseline:
        return summarise(head, results)
    old = RunHead(
        id=_RUNS["before"],
        at="2026-11-22T09:12:40+00:00",
        command="skills-agent eval skills",
        program="0.1.0",
        models=models,
        grader=head.grader,
        repeat=repeat,
        skills={**head.skills, "csv-report": "0a11" * 16},
        cases=asked,
    )
    earlier = [
        _result(chance, case, model, "with", number, "before")
        for case in asked
        for model in models
        for number in range(repeat)
    ]
    return summarise(head, results, (old, earlier))


def _case(chance: random.Random, number: int) -> EvalCase:
    skill = _SKILLS[min(int(chance.expovariate(0.8)), 3)]
    file = chance.choice(_FILES)
    if number % 5 == 4:
        wanted = chance.random() < 0.5
        request = chance.choice(_REQUESTS[skill] if wanted else _NEAR).format(file=file)
        return EvalCase(
            id=f"{skill}/trigger-{number}",
            name=request,
            skill=skill,
            kind="trigger",
            turns=(request,),
            expect=Expected(
                skills=ExpectedSkills(mode="only" if wanted else "none", names=(skill,) if wanted else ())
            ),
            tags=("trigger",) if wanted else ("trigger", "near-miss"),
            file=f"skills/{skill}/evals/triggers.json#{number}",
        )
    request = chance.choice(_REQUESTS[skill]).format(file=file)
    path = f"scripts/{skill.partition('-')[0]}.py"
    figure = f"{chance.randrange(1000, 99999) / 100:,.2f}"
    region = chance.choice(_REGIONS)
    return EvalCase(
        id=f"{skill}/{region.lower()}-{number}",
        name=request,
        skill=skill,
        turns=(request, "Now say the same in one sentence") if number % 11 == 0 else (request,),
        expect=Expected(
            skills=ExpectedSkills(names=(skill,)),
            calls=ExpectedCalls(
                calls=(ExpectedCall(tool="run_script", args={"skill": skill, "path": path}),),
                order=((ExpectedCall(tool="load_skill"), ExpectedCall(tool="run_script")),),
                forbidden=(ExpectedCall(tool="write_file"),) if number % 3 else (),
            ),
            limits=CaseLimits(calls=8, tokens=40_000),
            answer=ExpectedText(contains=(f"region={region}", figure)),
            files=(ExpectedFile(path="report.md", text=ExpectedText(contains=(region,))),)
            if number % 7 == 0
            else (),
            rubric=Rubric(points=("The answer names the file that the figures are of.",))
            if number % 6 == 0
            else None,
        ),
        tags=("figures",) if number % 2 else ("figures", "slow"),
        file=f"skills/{skill}/evals/cases.yaml:{12 + 9 * number}",
    )


def _result(
    chance: random.Random, case: EvalCase, model: str, arm: Arm, number: int, side: str
) -> EvalResult:
    chances = _SIDES[side]
    is_chosen = chance.random() < chances.chosen
    chosen = case.skill if is_chosen else chance.choice((*_SKILLS, "", ""))
    if arm == "without" and chosen == case.skill:
        chosen = ""
    if case.expect.skills and case.expect.skills.mode == "none":
        chosen = "" if is_chosen else case.skill
    fault: Outcome | None = chance.choice(tuple(_FAULTS)) if chance.random() < 0.03 else None
    is_right = chance.random() < chances.right
    calls = [] if case.kind == "trigger" and not chosen else list(_calls(chance, chosen, case))
    answer = "" if fault or case.kind == "trigger" else _answer(chance, case, is_right=is_right)
    trajectory = Trajectory(
        answers=("I looked at the file and counted.", answer) if len(case.turns) > 1 else (answer,),
        calls=tuple(calls),
        loaded=(LoadedSkill(name=chosen, source="project", digest="ab" * 32),) if chosen else (),
        offered=_SKILLS,
        files={"report.md": "cd" * 32} if case.expect.files and is_right else {},
    )
    spent = Spent(
        seconds=round(chance.lognormvariate(2, 0.5), 2),
        model_calls=len(calls) + 1,
        input_tokens=2600 * (len(calls) + 1) + chance.randrange(900),
        output_tokens=chance.randrange(90, 700),
        cached_tokens=1800 * len(calls),
        usd=round(0.0006 * (len(calls) + 1) + chance.random() / 500, 5),
    )
    checks = () if fault else tuple(_checks(case, trajectory, spent, is_right=is_right, chance=chance))
    outcome: Outcome = fault or ("passed" if all(each.passed for each in checks) else "failed")
    return EvalResult(
        case=case.id,
        model=model,
        arm=arm,
        repeat=number,
        outcome=outcome,
        checks=checks,
        error=_FAULTS[fault] if fault else "",
        trajectory=trajectory,
        spent=spent,
        thread=f"eval-{_RUNS[side]}-{case.id.replace('/', '-')}-{arm}-{number}",
        at="2026-11-23T18:24:02+00:00",
    )


def _calls(chance: random.Random, chosen: str, case: EvalCase) -> list[MadeCall]:
    file = next((word for word in case.turns[0].split() if "." in word), "orders.csv")
    made: list[dict[str, Any]] = []
    if chosen:
        made.append(
            {
                "tool": "load_skill",
                "args": {"name": chosen},
                "result": f"Loaded {chosen}: 84 lines, 2 scripts.",
            }
        )
    if case.kind == "trigger":
        return [MadeCall(**each) for each in made]
    made.append(
        {
            "tool": "read_file",
            "args": {"path": file, "lines": "1-40"},
            "result": "id,region,amount\n1,North,3.20\n" * 6,
        }
    )
    script = {
        "skill": chosen or "none",
        "path": f"scripts/{(chosen or case.skill).partition('-')[0]}.py",
        "args": [file],
    }
    for _ in range(chance.randrange(1, 4)):
        is_bad = chance.random() < 0.25
        made.append(
            {
                "tool": "run_script" if chosen else "grep",
                "args": script if chosen else {"pattern": "North|South", "path": file},
                "status": "error" if is_bad else "ok",
                "result": "Traceback: KeyError: 'amount'"
                if is_bad
                else "region=North sum=1,204.50\nregion=South sum=88.10",
            }
        )
    return [MadeCall(step=step, **each) for step, each in enumerate(made)]


def _answer(chance: random.Random, case: EvalCase, *, is_right: bool) -> str:
    wanted = case.expect.answer.contains if case.expect.answer else ("?", "?")
    figure = wanted[1] if is_right else f"{chance.randrange(1000, 99999) / 100:,.2f}"
    others = "\n".join(
        f"| {region} | {chance.randrange(10, 900)} | {chance.randrange(1000, 90000) / 100:,.2f} |"
        for region in _REGIONS[: chance.randrange(3, 6)]
    )
    opening = chance.choice(("Here is what I found:", "I ran the profile of the skill over the file."))
    return (
        f"{opening}\n\n{wanted[0]} has the highest amount, {figure} in all.\n\n"
        f"| region | rows | amount |\n|---|---:|---:|\n{others}\n\n"
        "Three rows have no customer; they are counted in the region and left out of the averages."
    )


def _checks(
    case: EvalCase, trajectory: Trajectory, spent: Spent, *, is_right: bool, chance: random.Random
) -> list[CheckResult]:
    """Return what the real checks say, and what a script, a file and a grader might."""
    expect = structs.replace(case.expect, files=(), rubric=None)
    found = list(check(structs.replace(case, expect=expect), trajectory, spent, Path(), _no_script))
    if case.expect.files:
        evidence = "" if is_right else "There is no file report.md; new or changed: none."
        text = "The file report.md contains the region."
        found.append(CheckResult(kind="file", text=text, passed=is_right, evidence=evidence))
    if case.expect.rubric:
        reason = "It names the file in its first sentence, and says which rows it left out."
        votes = tuple(Vote(passed=is_right or chance.random() < 0.3, reason=reason) for _ in range(3))
        agreed = sum(each.passed for each in votes)
        verdict = "it holds" if agreed >= 2 else "it does not hold"
        text = case.expect.rubric.points[0]
        evidence = f"{max(agreed, 3 - agreed)} of 3 votes: {verdict}. {reason}"
        found.append(
            CheckResult(kind="rubric", text=text, passed=agreed >= 2, evidence=evidence, votes=votes)
        )
    return found


def _no_script(_: ScriptCheck, __: Path) -> tuple[bool, str]:
    raise AssertionError("no case has a script")
