"""What happened in one case, on the page of a run: what was expected beside what was done, side by side."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import CheckResult, EvalResult
from skills_agent.evals.cases.summary import CaseRow, Summary
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.pages.elements import Html, copied, element, joined
from skills_agent.evals.report.expected_part import code_of, expected_part
from skills_agent.evals.report.wording import GOOD, reason
from skills_agent.skills.text import count, cut, one_line


class Detail(NamedTuple):
    """How much of a case is shown, in characters and in numbers."""

    answer: int
    request: int
    evidence: int
    arguments: int
    result: int
    calls: int
    runs: int
    """Runs in each column beside the one that is shown whole."""
    is_all: bool = True
    """Whether a case that always passes has its calls and answers, too."""


DETAILS: Final = (
    Detail(answer=1_500, request=800, evidence=300, arguments=200, result=160, calls=40, runs=9),
    Detail(answer=700, request=400, evidence=160, arguments=120, result=80, calls=15, runs=9),
    Detail(answer=700, request=400, evidence=160, arguments=120, result=80, calls=15, runs=9, is_all=False),
    Detail(answer=200, request=160, evidence=80, arguments=40, result=0, calls=4, runs=0, is_all=False),
)
"""The first that fits is taken."""

_CHECK: Final = 240
_VOTE: Final = 200
_FILES: Final = 12
_TURNS: Final = 10
_CHECKS: Final = 40
_DOT: Final = " \u00b7 "
_NAMES: Final = 80
_DIFF_LINES: Final = 80
_CONTEXT: Final = 2
_KINDS: Final = {"error": "broken-off", "refused": "broken-off", "unanswered": "broken-off"}
_STATUS: Final = {"error": "failed: ", "refused": "not run: ", "unanswered": "no result"}


def labels(runs: Mapping[str, object]) -> dict[str, str]:
    """Return how the columns are called, in their order."""
    if "before" in runs:
        names = {"with": "now", "before": "before", "without": "without"}
    elif "without" in runs:
        names = {"with": "with", "without": "without"}
    else:
        names = {"with": "passed"}
    return {side: name for side, name in names.items() if side in runs}


class Stories:
    """Tells what happened in each case of a run."""

    def __init__(self, summary: Summary, detail: Detail) -> None:
        """Tell it in as much detail."""
        self._detail = detail
        self._places = sorted(summary.head.places, key=len, reverse=True)

    def story(self, row: CaseRow, case: EvalCase | None) -> Html:
        """Return it: the request, each expectation and what came of it, calls, answers and threads."""
        names = labels(row.runs)
        shown = {side: _worst(row.runs[side]) for side in names}
        parts = [self._where(row, case)]
        if case:
            parts += self._requests(case)
        parts += self._checks(row, names, shown)
        if self._detail.is_all or _is_odd(row):
            parts.append(self._columns(row, case, names, shown))
            parts += self._answers(names, shown)
        parts += self._threads(row, names)
        return joined(parts)

    def _where(self, row: CaseRow, case: EvalCase | None) -> Html:
        tags = f"tags: {', '.join(case.tags)}" if case and case.tags else ""
        file = self._short(case.file) if case else ""
        return element(
            "p",
            _DOT.join(filter(None, [row.case, row.model, file, one_line(tags, _CHECK)])),
            class_="soft where",
        )

    def _short(self, file: str) -> str:
        """Return where a case is written without the folders above its place: readers have others."""
        inside = next((each for each in self._places if file.startswith(f"{each}/")), None)
        return file if inside is None else f"{inside.rpartition('/')[2]}{file.removeprefix(inside)}"

    def _requests(self, case: EvalCase) -> Iterator[Html]:
        for number, turn in enumerate(case.turns[:_TURNS], 1):
            yield element("h3", f"Request {number}" if len(case.turns) > 1 else "Request")
            yield element("pre", cut(turn, self._detail.request))
        if len(case.turns) > _TURNS:
            yield element("p", f"and {count(len(case.turns) - _TURNS, 'request')} more", class_="soft")
        if case.note:
            yield element("p", f"The file says: {cut(case.note, self._detail.request)}", class_="soft")

    def _checks(
        self, row: CaseRow, names: Mapping[str, str], shown: Mapping[str, EvalResult]
    ) -> Iterator[Html]:
        """Yield what is expected, a row each, and what came of it on each side."""
        for side, name in names.items():
            for each in {one.error: one for one in row.runs[side] if one.error}.values():
                where = f" ({name})" if len(names) > 1 else ""
                said = f"{each.outcome.capitalize()}{where}: {cut(each.error, self._detail.evidence)}"
                yield element("p", said, class_=f"fault {each.outcome}")
        texts = list(dict.fromkeys(check.text for one in shown.values() for check in one.checks))
        if not texts:
            return
        rows = []
        # Of many, those that fail here are surely shown.
        failed = (
            {check.text for check in shown["with"].checks if not check.passed} if "with" in shown else set()
        )
        for text in (
            sorted(texts, key=lambda text: text not in failed)[:_CHECKS] if len(texts) > _CHECKS else texts
        ):
            is_alike = text in row.undecided
            note = element("small", "same without it", class_="alike") if is_alike else None
            cells = [self._outcome(text, row.runs[side], shown[side]) for side in names]
            rows.append(element("tr", element("th", cut(text, _CHECK), note, scope="row"), cells))
        if len(texts) > _CHECKS:
            more = f"and {len(texts) - _CHECKS} more expectations: eval --json has all"
            rows.append(element("tr", element("td", more, colspan=1 + len(names))))
        titles = ["expected", *(name if len(names) > 1 else "" for name in names.values())]
        head = element("tr", [element("th", each, scope="col") for each in titles])
        yield element(
            "div",
            element("table", element("thead", head), element("tbody", rows), class_="checks"),
            class_="wide",
        )

    def _outcome(self, text: str, runs: Sequence[EvalResult], shown: EvalResult) -> Html:
        """Return what came of one expectation on one side: a sign, how often, and the evidence."""
        held = [check.passed for one in runs for check in one.checks if check.text == text]
        if not held:
            return element("td", "-", class_="soft")
        sign = "\u2713" if all(held) else "\u2717"
        times = f" {sum(held)} of {len(held)}" if len(held) > 1 else ""
        here = next((check for check in shown.checks if check.text == text), None)
        evidence = here.evidence if here and not here.passed else ""
        return element(
            "td",
            f"{sign}{times}",
            element("small", f" {cut(evidence, self._detail.evidence)}") if evidence else None,
            _votes(here) if here else None,
            class_="passed" if all(held) else "failed",
        )

    def _columns(
        self,
        row: CaseRow,
        case: EvalCase | None,
        names: Mapping[str, str],
        shown: Mapping[str, EvalResult],
    ) -> Html:
        """Return the calls that are expected beside those that were made."""
        columns = []
        if case and (wanted := list(expected_part(case))):
            columns.append(element("section", element("h3", "Expected"), wanted))
        for side, name in names.items():
            number = f", run {shown[side].repeat + 1}" if len(row.runs[side]) > 1 else ""
            title = "What it did" if len(names) == 1 else name.capitalize()
            columns.append(element("section", element("h3", f"{title}{number}"), self._made(shown[side])))
        return element("div", columns, class_="columns")

    def _made(self, one: EvalResult) -> Iterator[Html]:
        calls = one.trajectory.calls
        steps = [
            element(
                "li", code_of(each, self._detail.arguments), self._said(each), class_=_KINDS.get(each.status)
            )
            for each in calls[: self._detail.calls]
        ]
        if more := len(calls) - len(steps):
            steps.append(element("li", f"and {count(more, 'call')} more"))
        yield element("ol", steps) if steps else element("p", "No calls.", class_="soft")
        if files := list(one.trajectory.files):
            more_files = f" and {len(files) - _FILES} more" if len(files) > _FILES else ""
            names = ", ".join(one_line(each, _NAMES) for each in files[:_FILES])
            yield element("p", f"Files written: {names}{more_files}", class_="soft")
        spent = one.spent
        usd = f", {spent.usd:.4f} USD" if spent.usd is not None else ""
        yield element("p", f"{spent.tokens:,} tokens, {spent.seconds:,.1f} s{usd}", class_="soft")

    def _said(self, call: MadeCall) -> Html | None:
        said = one_line(call.result, self._detail.result) if self._detail.result else ""
        kind = _STATUS.get(call.status, "")
        return element("small", f" {kind}{said}") if kind or said else None

    def _answers(self, names: Mapping[str, str], shown: Mapping[str, EvalResult]) -> Iterator[Html]:
        """Yield the answer, and how it differs from those of the other columns."""
        now = cut(shown["with"].trajectory.answer, self._detail.answer) if "with" in shown else ""
        others = {side: one for side, one in shown.items() if side != "with" and one.trajectory.answer}
        if now:
            yield element("h3", "Answer")
            yield element("pre", now)
        for side, one in others.items():
            old = cut(one.trajectory.answer, self._detail.answer)
            if old == now:
                yield element("p", f"{names[side].capitalize()}: the same answer.", class_="soft")
                continue
            title = f"Compared with the answer {names[side]}" if now else f"The answer {names[side]}"
            changed = element("pre", list(_changes(old, now)) if now else old)
            yield element("details", element("summary", title), changed, class_="diff")

    def _threads(self, row: CaseRow, names: Mapping[str, str]) -> Iterator[Html]:
        """Yield the command that opens the thread of each run."""
        items = []
        for side, name in names.items():
            runs = sorted(row.runs[side], key=lambda one: one is not _worst(row.runs[side]))
            for one in runs[: self._detail.runs + 1]:
                number = f" {one.repeat + 1}" if len(runs) > 1 else ""
                why = f" {one_line(reason(one), self._detail.evidence)}" if one is not runs[0] else ""
                # Without the skill only what came out counts: an outcome is of all checks.
                is_said = side != "without" or one.outcome not in {"passed", "failed"}
                outcome = joined(" ", element("b", one.outcome, class_=one.outcome), why) if is_said else None
                label = element("span", f"{name}{number}:", outcome)
                command = copied(f"skills-agent threads show {one.thread}") if one.thread else None
                items.append(element("li", label, " ", command))
        yield element("h3", "Threads")
        yield element("ul", items, class_="threads")


def _worst(runs: Sequence[EvalResult]) -> EvalResult:
    """Return the run that is shown whole: the first that failed, else that broke off, else the first."""
    return min(runs, key=lambda one: (one.outcome != "failed", one.outcome in GOOD, one.repeat))


def _is_odd(row: CaseRow) -> bool:
    """Return whether a person would look into a case: it does not pass, or not always."""
    return row.rates.get("with", 0.0) < 1


def _votes(check: CheckResult) -> Html | None:
    if not check.votes:
        return None
    yes = sum(vote.passed for vote in check.votes)
    said = [
        element("li", f"{'yes' if vote.passed else 'no'}: {one_line(vote.reason, _VOTE)}")
        for vote in check.votes
    ]
    title = element("summary", f"{yes} of {count(len(check.votes), 'vote')} for it")
    return element("details", title, element("ul", said), class_="votes")


def _changes(old: str, new: str) -> Iterator[Html]:
    """Yield two texts as one, line by line: deleted is what only the old one has.

    Texts of many lines are compared in their beginning: comparing takes the square of it.
    """
    ours, theirs = old.splitlines()[:_DIFF_LINES], new.splitlines()[:_DIFF_LINES]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            yield _unchanged(ours[a:b])
            continue
        for kind, sign, lines in (("del", "-", ours[a:b]), ("ins", "+", theirs[c:d])):
            if lines:
                yield element(kind, "".join(f"{sign} {line}\n" for line in lines))
    if max(old.count("\n"), new.count("\n")) >= _DIFF_LINES:
        yield element("span", f"\u2026 the first {_DIFF_LINES} lines are compared\n")


def _unchanged(lines: Sequence[str]) -> Html:
    hidden = len(lines) - 2 * _CONTEXT
    if hidden > 1:
        lines = [*lines[:_CONTEXT], f"\u2026 {hidden} lines are the same", *lines[-_CONTEXT:]]
    return element("span", "".join(f"  {line}\n" for line in lines))
