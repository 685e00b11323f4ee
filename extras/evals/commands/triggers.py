"""skills-agent eval --triggers NAME: which requests a skill is chosen for, by words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from skills_agent.evals.cases.choosing import best, words_of
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.finding import find_files
from skills_agent.evals.cases.read import read_set
from skills_agent.evals.cases.statistics import wilson
from skills_agent.graph.cli.printing import echo, line_of, print_json, table
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.match import SearchText
from skills_agent.skills.search.words import SearchIndex
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.text import count


def show_triggers(registry: Registry, name: str, places: Sequence[Path], *, as_json: bool) -> None:
    """Show which requests a skill is chosen for, which neighbour wins the others, and why.

    By words, without a model: names and descriptions are compared with the requests, as a model sees no more
    before it loads a skill. The requests are those of eval files in `places`, else of the skill's own.
    """
    catalog = registry.refresh()
    skill = catalog.find(name)
    if not skill.model_invocable:
        raise click.UsageError(f"only a person loads {skill.name}: no request triggers it")
    files = [file for place in places for file in ([place] if place.is_file() else find_files(place))]
    asked, skipped = _read(files or _own_files(registry, skill), skill.name)
    if not asked:
        raise click.UsageError(
            f"nothing says which requests are for {skill.name}: list some as `should_trigger` and "
            "`should_not_trigger` in its evals/evals.yaml, or name a file of requests"
        )
    descriptions = {each.name: each.described for each in catalog.skills if each.model_invocable}
    names = sorted(descriptions)
    index = SearchIndex(SearchText(name, descriptions[name]) for name in names)
    requests = []
    for query, wanted in asked.items():
        match = best(index, query)
        chosen = names[match.position] if match else ""
        why = words_of(index, query, match) if match else "no description has enough of its words"
        is_right = (chosen == skill.name) is wanted
        told = {"query": query, "should_trigger": wanted, "chosen": chosen, "why": why, "right": is_right}
        requests.append(told)
    if as_json:
        said = {"name": skill.name, "skills": sorted(descriptions), "requests": requests}
        print_json({**said, "skipped": skipped})
        return
    many = f"{skill.name} among {count(len(descriptions), 'skill')}, {count(len(requests), 'request')}"
    echo(f"Chosen by words, without a model: {many}.\n")
    _print(requests, skill.name)
    for sentence in skipped:
        echo(f"skipped: {line_of(sentence)}")


def _own_files(registry: Registry, skill: SkillMetadata) -> Sequence[Path]:
    source = registry.source_of(skill.source, skill.path)
    folder = source.root(skill.path) if source else None
    return find_files(folder) if folder else ()


def _read(files: Iterable[Path], name: str) -> tuple[dict[str, bool], list[str]]:
    """Return the requests of cases that say whether they are for a skill, and what is passed over."""
    requests: dict[str, bool] = {}
    skipped: list[str] = []
    for file in files:
        try:
            found = read_set(file, name)
        except EvalError as error:
            skipped.append(str(error))
            continue
        skipped += found.skipped
        for case in found.cases:
            if case.load or not (expected := case.expect.skills):
                continue
            is_named = name in expected.names
            wanted = is_named and expected.mode != "none"
            if wanted or case.skill == name or not is_named:
                requests.setdefault(case.turns[0], wanted)
    return requests, skipped


def _print(requests: Sequence[Mapping[str, Any]], name: str) -> None:
    for wanted, title in ((True, f"For {name}"), (False, f"Not for {name}")):
        rows = [
            (
                "right" if request["right"] else "WRONG",
                request["chosen"] or "-",
                line_of(request["query"], 60),
                request["why"],
            )
            for request in requests
            if request["should_trigger"] is wanted
        ]
        if rows:
            echo(f"{title}:")
            table([("", "chosen", "request", "because of"), *sorted(rows, key=lambda row: row[0] == "right")])
            echo()
    for_it = [request["chosen"] for request in requests if request["should_trigger"]]
    hits, reached = for_it.count(name), sum(request["chosen"] == name for request in requests)
    echo(f"recall     {_share(hits, len(for_it))} of those for it reach it")
    echo(f"precision  {_share(hits, reached)} that reach it are for it")
    lost = Counter(chosen or "none" for chosen in for_it if chosen != name)
    if lost:
        echo("lost to    " + ", ".join(f"{other} ({many})" for other, many in lost.most_common()))


def _share(part: int, of: int) -> str:
    if not of:
        return "0 of 0"
    share = wilson(part, of)
    return f"{part} of {of} ({share.low:.0%} to {share.high:.0%})"
