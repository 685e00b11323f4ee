"""What the runs of a proof say: a Markdown table for each set, and the goals."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from skills_agent.evals.cases.checks import choice_holds
from skills_agent.evals.cases.result import Arm, EvalResult, RunHead, split_label
from skills_agent.evals.cases.statistics import bootstrap, wilson
from skills_agent.evals.cases.trajectory import Spent

OURS, NEIGHBOURS = "ours", ("deepagents", "plain")
"""The goals hold our agent against those that have no part of ours."""
MOST_TOKENS, MOST_CALLS, MORE_RIGHT, FALSE_LOADS = 0.8, 1.0, 0.05, 0.5

Results = Sequence[EvalResult]
Row = Sequence[str]


def print_tables(by_set: Mapping[str, tuple[RunHead, Results]]) -> None:
    """Print a table of each set, and how far the goals are met."""
    for name, (head, results) in by_set.items():
        is_choice = any(case.kind == "trigger" for case in head.cases)
        cut = f" ({head.partial})" if head.partial else ""
        print(f"\n### {name}: {', '.join(head.models)}{cut}\n")
        print_rows(choice_rows(head, results) if is_choice else task_rows(head, results))
    print("\n### Goals\n")
    for sentence in goals(by_set):
        print(f"- {sentence}")


def print_rows(rows: Iterable[Row]) -> None:
    """Print rows as Markdown; the first is the head."""
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |")
        if number == 0:
            print("|---" + "|---:" * (len(row) - 1) + "|")


def task_rows(head: RunHead, results: Results) -> Iterator[Row]:
    """Yield what each agent did of the tasks, with the skills and without: means of a run."""
    yield ("agent", "skills", "done", "replies", "tokens in", "cached", "out", "seconds", "asked")
    for label in head.labels:
        for arm in head.arms:
            some = of(results, label, arm)
            if not some:
                continue
            spent = sum((one.spent for one in some), Spent())
            means = [spent.model_calls, spent.input_tokens, spent.output_tokens, spent.seconds]
            replies, tokens, out, seconds = (f"{each / len(some):,.1f}" for each in means)
            cached = f"{spent.cached_tokens / max(1, spent.input_tokens):.0%}"
            done, asked = share([passed(one) for one in some]), str(spent.approvals)
            yield (named(head, label), arm, done, replies, tokens, cached, out, seconds, asked)


def choice_rows(head: RunHead, results: Results) -> Iterator[Row]:
    """Yield which skills each agent chose."""
    yield ("agent", "right of requests for a skill", "loaded for none", "tokens in", "replies")
    for label in head.labels:
        if some := of(results, label, "with"):
            wanted, unfit = choices(head, some)
            tokens = fmean(one.spent.input_tokens for one in some)
            replies = fmean(one.spent.model_calls for one in some)
            yield (named(head, label), share(wanted), share(unfit), f"{tokens:,.0f}", f"{replies:.2f}")


def choices(head: RunHead, results: Results) -> tuple[list[float], list[float]]:
    """Return whether each request for a skill got it, and whether each for none got one all the same."""
    expected = {case.id: case.expect.skills for case in head.cases}
    wanted, unfit = [], []
    for one in results:
        if (skills := expected.get(one.case)) is None:
            continue
        if skills.mode == "none":
            unfit.append(float(bool(one.trajectory.chosen)))
        else:
            wanted.append(float(choice_holds(skills, one.trajectory.chosen)))
    return wanted, unfit


def goals(by_set: Mapping[str, tuple[RunHead, Results]]) -> Iterator[str]:
    """Yield a sentence for each goal that the sets can say something about."""
    tasks = {name: each for name, each in by_set.items() if not name.startswith("choice")}
    pooled = [one for _, results in tasks.values() for one in results]
    for neighbour in NEIGHBOURS:
        pairs = paired(pooled, neighbour)
        if not pairs:
            continue
        found = bootstrap([passed(ours) - passed(theirs) for ours, theirs in pairs], is_share=True)
        ours, theirs = (sum((pair[side].spent for pair in pairs), Spent()) for side in (0, 1))
        tokens, calls = (
            getattr(ours, name) / max(1, getattr(theirs, name)) for name in ("input_tokens", "model_calls")
        )
        interval = f"{100 * found.value:+.0f} points ({100 * found.low:+.0f} to {100 * found.high:+.0f})"
        yield f"done beside {neighbour}, {len(pairs)} pairs: {interval}; {said(found.value >= 0)}"
        limit = f", goal {MOST_TOKENS}: {said(tokens <= MOST_TOKENS)}" if neighbour == "deepagents" else ""
        yield f"prompt tokens of a task beside {neighbour}: {tokens:.2f}{limit}"
        limit = f"goal {MOST_CALLS}: {said(calls <= MOST_CALLS)}"
        yield f"model calls of a task beside {neighbour}: {calls:.2f}, {limit}"
    for name, (head, results) in by_set.items():
        found_by = {split_label(label)[0]: choices(head, of(results, label, "with")) for label in head.labels}
        others = [found_by[it] for it in NEIGHBOURS if all(found_by.get(it, [()]))]
        if name in tasks or not others or not all(found_by.get(OURS, [()])):
            continue
        right, false = map(fmean, found_by[OURS])
        # One that hardly ever loads a skill loads none in vain: the one that chooses best is the measure.
        best, least = max((fmean(wanted), fmean(unfit)) for wanted, unfit in others)
        more = right - best
        yield f"{name}: chosen right {100 * more:+.0f} points, goal +5: {said(more >= MORE_RIGHT)}"
        limit = f"goal half: {said(false <= FALSE_LOADS * least)}"
        yield f"{name}: loaded for none {false:.0%} beside {least:.0%}, {limit}"


def paired(results: Results, neighbour: str) -> list[tuple[EvalResult, EvalResult]]:
    """Return our runs with the same ones of a neighbour: model, case, arm and repeat."""
    known = {(*split_label(one.model), one.case, one.arm, one.repeat): one for one in results}
    pairs = [(one, known.get((neighbour, *key[1:]))) for key, one in known.items() if key[0] == OURS]
    return [(ours, theirs) for ours, theirs in pairs if theirs is not None and ours.arm == "with"]


def of(results: Results, label: str, arm: Arm) -> Results:
    """Return the results of an agent in an arm."""
    return [one for one in results if one.model == label and one.arm == arm]


def passed(result: EvalResult) -> float:
    """Return 1 where what came out is right: whether a skill was loaded on the way is counted apart."""
    if result.outcome not in {"passed", "failed"}:
        return 0.0
    return float(all(check.passed for check in result.checks if check.kind != "skills"))


def share(values: Sequence[float]) -> str:
    """Return a share with Wilson's 95 % interval."""
    if not values:
        return ""
    found = wilson(sum(values), len(values))
    return f"{sum(values):g} of {len(values)} ({found.low:.0%} to {found.high:.0%})"


def named(head: RunHead, label: str) -> str:
    """Return an agent, with its model where there are several."""
    agent, model = split_label(label)
    return f"{agent}, {model}" if len(head.models) > 1 else agent


def said(holds: bool) -> str:
    """Return whether a goal is met, as a word."""
    return "met" if holds else "missed"
