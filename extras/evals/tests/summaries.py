"""Summaries of runs that nobody made, for tests of reports."""

import random
from typing import Any

from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedSkills, ExpectedText
from skills_agent.evals.cases.result import CheckResult, EvalResult, RunHead
from skills_agent.evals.cases.summary import (
    ArmSummary,
    CaseRow,
    Choices,
    Delta,
    Interval,
    NearMiss,
    Spread,
    Summary,
    Triggering,
)
from skills_agent.evals.cases.trajectory import LoadedSkill, MadeCall, Spent, Trajectory

HOSTILE = (
    "</script><script>window.pwned=1</script><img src=x onerror=pwned()> @octocat #1 |`\x1b[2J\u202e "
    "https://evil.example ]]>"
)


def result(case: str, outcome: Any = "passed", arm: Any = "with", **fields: Any) -> EvalResult:
    """Return one result, with a check that failed where it did."""
    failed = CheckResult(
        kind="answer", text='The answer contains "4".', passed=False, evidence='It says "5".'
    )
    held = CheckResult(kind="skills", text="The model chooses csv-report.", passed=True)
    return EvalResult(
        **{
            "case": case,
            "model": "offline",
            "arm": arm,
            "outcome": outcome,
            "checks": (held, failed) if outcome == "failed" else (held,),
            "error": "It was given up after 2 seconds." if outcome == "timeout" else "",
            "spent": Spent(seconds=1.5, model_calls=3, input_tokens=1200, output_tokens=90, usd=0.001),
            "trajectory": Trajectory(
                answers=("The total is 4.",),
                calls=(
                    MadeCall(tool="load_skill", args={"name": "csv-report"}),
                    MadeCall(tool="run_script", step=1),
                ),
                loaded=(LoadedSkill(name="csv-report", source="user", digest="d" * 64),),
            ),
            "thread": f"eval-r1-{case.replace('/', '-')}-{arm}",
            **fields,
        }
    )


def summary(count: int = 4, *, text: str = "What is the total per region?", seed: int = 1) -> Summary:
    """Return the summary of a run of so many cases, some of which fail."""
    chance = random.Random(seed)
    cases = tuple(
        EvalCase(
            id=f"csv-report/{number}",
            name=text[:60],
            skill="csv-report",
            turns=(text,),
            tags=("sums",),
            expect=Expected(
                skills=ExpectedSkills(names=("csv-report",)), answer=ExpectedText(contains=("4",))
            ),
        )
        for number in range(count)
    )
    rows = []
    for number, case in enumerate(cases):
        outcome = "passed" if number % 4 else chance.choice(["failed", "timeout", "refused", "error"])
        before = "passed" if number % 3 else "failed"
        kept: dict[str, tuple[EvalResult, ...]] = {
            "with": (result(case.id, outcome),),
            "without": (result(case.id, before, "without"),),
        }
        rates = {name: float(runs[0].outcome == "passed") for name, runs in kept.items()}
        rows.append(
            CaseRow(case=case.id, model="offline", runs=kept, rates=rates, flaky=number == 1, undecided=())
        )
    passed = Interval(value=0.75, low=0.5, high=0.9, n=count)
    some = Spread(median=1290, least=900, most=1500)
    choices = Choices(
        accuracy=passed,
        skills=(
            Triggering(
                skill="csv-report",
                right=3,
                missed=1,
                wrong=0,
                precision=Interval(value=1, low=0.4, high=1, n=3),
                recall=passed,
                f1=0.86,
            ),
        ),
        names=("csv-report", "text-stats", "(none)"),
        confusion=((3, 1, 0), (0, 4, 0), (0, 0, 2)),
        near_misses=(
            NearMiss(
                case="csv-report/0", request=text, expected=("csv-report",), chosen=("text-stats",), rate=1
            ),
        ),
    )
    arms = tuple(
        ArmSummary(
            model="offline",
            arm=arm,
            cases=count,
            runs=count,
            outcomes={"passed": count - 1, "failed": 1},
            passed=passed,
            any_passed=0.75,
            all_passed=0.75,
            sequence=None,
            output=passed,
            choices=choices if arm == "with" else None,
            tokens=some,
            calls=Spread(median=2, least=2, most=2),
            seconds=Spread(median=1.5, least=1.5, most=1.5),
            usd=None,
            total=Spent(seconds=6, model_calls=12, input_tokens=4800, output_tokens=360),
        )
        for arm in ("with", "without")
    )
    delta = Delta(
        model="offline",
        name="with - without",
        metric="passed",
        value=0.25,
        low=0.05,
        high=0.45,
        n=count,
        wins=8,
        losses=1,
        ties=count - 9,
        p=0.039,
        verdict="better",
    )
    head = RunHead(
        id="r1",
        at="2026-11-23T10:00:00+00:00",
        command="eval --without",
        program="0.1.0",
        models=("offline",),
        arms=("with", "without"),
        seed=42,
        skills={"csv-report": "d" * 64},
        cases=cases,
        skipped=("evals.json#3: it is no object.",),
    )
    return Summary(
        head=head, arms=arms, deltas=(delta,), cases=tuple(rows), notes=("Four cases are few.",), visible=0.4
    )
