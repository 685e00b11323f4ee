"""What a report says of a run, in a terminal and on a page: facts, and nothing hostile gets through."""

import io

import pytest
from msgspec import structs
from rich.console import Console

from extras.evals.tests.runs import answered, head, ran, task
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.report.figures import failures
from skills_agent.evals.report.terminal import print_report
from skills_agent.evals.report.view import answers
from tests.page_reader import assert_loads_nothing

HOSTILE = (
    "</script><script>window.pwned=1</script><img src=x onerror=pwned()> @octocat |`\x1b[2J\u202e "
    "https://evil.example"
)
NAMES = tuple(f"c{number}" for number in range(12))


def both(*, wrong: int = 2) -> Summary:
    """Return the report of cases that pass with the skill, but for so many, and fail without it."""
    results = [answered(name, right=place >= wrong) for place, name in enumerate(NAMES)]
    results += [answered(name, right=False, arm="without") for name in NAMES]
    return summarise(head(map(task, NAMES), arms=("with", "without")), results)


def hostile() -> Summary:
    """Return the report of a run in which every text that comes from elsewhere is hostile."""
    case = task(HOSTILE, file=HOSTILE, note=HOSTILE)
    case = structs.replace(case, skill=HOSTILE, turns=(HOSTILE,))
    one = ran(HOSTILE, ("answer", False), model=HOSTILE, chosen=[HOSTILE])
    call = MadeCall(tool=HOSTILE, args={HOSTILE: [HOSTILE, "\ud800"]}, result=HOSTILE, status="error")
    checks = tuple(structs.replace(each, text=HOSTILE, evidence=HOSTILE) for each in one.checks)
    trajectory = structs.replace(one.trajectory, answers=(HOSTILE,), calls=(call,), files={HOSTILE: "0"})
    one = structs.replace(one, checks=checks, trajectory=trajectory, error=HOSTILE, thread=HOSTILE)
    fields = {"id": HOSTILE, "grader": HOSTILE, "command": HOSTILE, "partial": HOSTILE, "skipped": (HOSTILE,)}
    whole = head([case], skills={HOSTILE: HOSTILE}, **fields)
    return summarise(structs.replace(whole, models=(HOSTILE, "b")), [one], (whole, [one]))


def printed(summary: Summary, *, width: int = 100, is_terminal: bool = False) -> str:
    file = io.StringIO()
    print_report(
        summary, Console(file=file, width=width, force_terminal=is_terminal, highlight=False, markup=False)
    )
    return file.getvalue()


def page_of(summary: Summary) -> str:
    file = io.StringIO()
    pytest.importorskip("skills_agent.evals.report.page").write_page(file, summary)
    return file.getvalue()


def test_the_answer_is_whether_the_skill_helps_and_what_passed() -> None:
    (tone, compared), passed = answers(both())
    assert tone == "better"
    assert "10 better, 0 worse, 2 the same" in compared
    assert (passed[0], passed[1].partition(":")[0]) == ("failed", "10 of 12 runs passed")
    assert printed(both(), width=40).splitlines()[-1] == passed[1]
    assert printed(both(), width=40) == printed(both(), width=1_000)
    assert [*answers(both(wrong=0))][1][0] == "passed"
    assert next(answers(both(wrong=12)))[0] == "open"


def test_a_run_of_nothing_has_a_report() -> None:
    summary = summarise(head([]), [])
    assert [sentence for _, sentence in answers(summary)] == ["Nothing was run."]
    assert printed(summary)
    assert "Nothing was run." in page_of(summary)


def test_faults_say_why_and_which_thread_shows_it() -> None:
    late = structs.replace(ran("c1", outcome="timeout"), error="It was given up.", thread="eval-c1")
    summary = summarise(head(map(task, NAMES[:2])), [late, answered("c0", right=False)])
    assert [(each.outcome, each.case) for each in failures(summary)] == [("failed", "c0"), ("timeout", "c1")]
    said = printed(summary)
    assert "It was given up." in said
    assert "skills-agent threads show eval-c1" in said


@pytest.mark.parametrize(("width", "is_terminal"), [(40, True), (80, False)])
def test_hostile_texts_cannot_steer_the_terminal_or_the_page(width: int, is_terminal: bool) -> None:
    said = printed(hostile(), width=width, is_terminal=is_terminal)
    assert "octocat" in said
    assert not set(said) & set("\u202e\ud800")
    assert "\x1b[2J" not in said
    assert_loads_nothing(page_of(hostile()))


def test_a_page_names_each_case_as_its_file_does_and_says_which_run_is_shown() -> None:
    cases = [structs.replace(task(name), name=f"Do what {name} says") for name in NAMES]
    results = [answered(name, right=repeat > 0, repeat=repeat) for name in NAMES for repeat in (0, 1)]
    page = page_of(summarise(head(cases), results))
    assert "<title>Evals of a</title>" in page
    assert '"chip flaky">flaky</b> Do what c0 says <small>with the skill 50 %</small>' in page
    assert "With the skill: failed (run 1 of 2)" in page
