"""What `skills install`, `update` and `sync` show before they ask. All of it is a stranger's text."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from msgspec import to_builtins

from skills_agent.graph.cli.printing import line_of
from skills_agent.graph.settings import Settings, make_registry
from skills_agent.packages.difference import FileDifference
from skills_agent.packages.installation import Change
from skills_agent.packages.offer import Listed, OfferedSkill
from skills_agent.packages.required import required_of
from skills_agent.packages.review import Origin, Review, Script, review
from skills_agent.packages.scan import ScanFinding
from skills_agent.packages.signed import said
from skills_agent.packages.target import Target
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible

WIDTH: Final = 80
MAX_WHOLE: Final = 8
"""Skills that are shown whole; of more each has a line, and what there is to look at."""
DIFF_LINES: Final = 60
"""Of one skill, without --diff."""
_LINE: Final = 400
"""Characters of a line of a difference, without --diff."""
_SHOWN: Final = 12
"""Of a digest or a commit, and of scripts, tools and needs."""
_FINDINGS: Final = 10
_FEW: Final = 2
"""Findings of a skill that has one line."""
_DESCRIPTION: Final = 600
_LABEL: Final = 10


class Here(NamedTuple):
    """The skills that are here before something is installed."""

    versions: Mapping[str, str]
    """By name; empty for one that says none."""
    places: Mapping[str, str]
    """By name: `installed`, or the source."""


def skills_here(settings: Settings, target: Target) -> Here:
    """Return the skills of all sources and of the folder that is installed into. Writes no index."""
    more = (target.folder,) if target.folder.is_dir() else ()
    registry = make_registry(replace(settings, index=False, skills_dirs=(*settings.skills_dirs, *more)))
    skills = registry.refresh().skills
    return Here(
        {each.name: each.version or "" for each in skills},
        {
            each.name: "installed" if Path(each.path).is_relative_to(target.folder) else each.source
            for each in skills
        },
    )


def reviews_of(
    target: Target, changes: Sequence[Change], here: Here, asked: Collection[str] | None = None
) -> tuple[Review, ...]:
    """Return what there is to know of each skill that would change; `asked`: names that a person chose."""
    listed = {each.skill.name: _listed(each.skill) for each in changes}
    known = {name: place for name, place in here.places.items() if name not in listed}
    chosen = listed.keys() if asked is None else asked
    return tuple(
        review(
            each.skill,
            Origin(
                each.offer.address.text,
                each.offer.resolved_of(each.skill),
                each.offer.archive_of(each.skill),
                each.kind,
                each.before.version if each.before else "",
                each.why_foreign if each.is_foreign and each.kind != "same" else "",
                said(each.signature),
            ),
            target.folder / each.skill.name,
            known,
            required_of(listed[each.skill.name], listed, here.versions, chosen),
        )
        for each in changes
    )


def _listed(skill: OfferedSkill) -> Listed:
    said = skill.metadata
    return (
        Listed(skill.name, said.description, said.version or "", said.requires)
        if said
        else Listed(skill.name)
    )


def record_of(reviewed: Review) -> dict[str, Any]:
    """Return all of a review for --json."""
    return {**to_builtins(reviewed), "origin": reviewed.source}


def print_reviews(
    reviews: Sequence[Review], folder: Path, *, whole: bool = False, yes: bool = False, as_json: bool = False
) -> None:
    """Print what a person has to know before saying yes.

    `whole`: all lines of a difference. `yes`: nobody is asked, so the warnings go to stderr; with `as_json`
    nothing else is printed.
    """
    todo = [each for each in reviews if each.change != "same"]
    if not as_json:
        for line in _texts(todo, len(reviews) - len(todo), folder, whole=whole, with_warnings=not yes):
            click.echo(line)
    if yes:
        for each in todo:
            for line in _warnings(each, _FINDINGS, f"{line_of(each.name)}: "):
                click.echo(line, err=True)


def _texts(
    todo: Sequence[Review], same: int, folder: Path, *, whole: bool, with_warnings: bool
) -> Iterator[str]:
    is_brief = len(todo) > MAX_WHOLE and not whole
    for each in todo:
        yield from (
            _brief(each, with_warnings)
            if is_brief
            else (*_whole(each, with_warnings), *_diff(each, whole=whole), "")
        )
    if is_brief:
        yield "\nMore of one: --skill NAME --dry-run. All of all: --diff."
    if same and todo:
        yield f"{count(same, 'skill')} {'is' if same == 1 else 'are'} here already, the same."
    if not todo:
        yield line_of(f"Nothing to do: {folder} has {'it' if same == 1 else 'these'} already.")


def _brief(each: Review, with_warnings: bool) -> Iterator[str]:
    facts = [count(each.files, "file"), count(len(each.scripts), "script") if each.scripts else ""]
    if each.difference:
        facts.append(_changed_text(each.difference))
    yield f"{_head(each)}  {', '.join(filter(None, facts))}"
    yield from _wrapped(line_of(each.description, WIDTH - 2), "  ")
    for required in each.requires:
        if required.state != "met":
            yield from _row("requires", f"{required.requirement}: {required.message}")
    if with_warnings:
        yield from _warnings(each, _FEW)
    elif each.obstacle:
        yield from _row("stays", each.obstacle)


def _head(each: Review) -> str:
    is_other = each.change == "update" and each.version_before not in {"", each.version}
    version = f"{each.version_before} -> {each.version}" if is_other else each.version
    return "  ".join(filter(None, (line_of(each.name), each.change, line_of(version, 60))))


def _whole(each: Review, with_warnings: bool) -> Iterator[str]:
    yield _head(each)
    yield from _wrapped(line_of(each.description, _DESCRIPTION), "  ")
    at = f" at {each.resolved[:_SHOWN]}" if _is_commit(each.resolved) else ""
    url = f", {each.resolved}" if each.resolved and not at and each.resolved != each.source else ""
    yield from _row("from", f"{each.source}{at}{url}{f', folder {each.path}' if each.path else ''}")
    size = f"{count(f'{each.files:,}' if each.files != 1 else 1, 'file')}, {each.bytes:,} bytes"
    yield from _row("has", f"{size}, digest {each.digest[:_SHOWN]}")
    if each.signature:
        yield f"  {line_of(each.signature)}"  # not wrapped: a fingerprint is compared whole
    yield from _row("scripts", _some(map(_script_text, each.scripts)))
    if each.allowed_tools is not None:
        yield from _row("may use", _some(each.allowed_tools) or "no tools")
    yield from _row("refuses", _some(each.disallowed_tools))
    yield from _row("needs", _some(need.text for need in each.needs))
    for required in each.requires:
        yield from _row("requires", f"{required.requirement}: {required.message}")
    infos = [finding for finding in each.findings if finding.level == "info"]
    for finding in infos[:_FINDINGS]:
        yield from _row("note", _finding_text(finding))
    if infos[_FINDINGS:]:
        yield from _row("note", f"and {len(infos) - _FINDINGS} more; --json has all")
    if with_warnings:
        yield from _warnings(each, _FINDINGS)
    elif each.obstacle:
        yield from _row("stays", each.obstacle)


def _warnings(each: Review, limit: int, name: str = "") -> Iterator[str]:
    """Yield the findings to look at, and why a skill is not installed as it is."""
    label = "" if name else "warning"
    if each.obstacle:
        yield from _row("" if name else "stays", each.obstacle, f"warning: {name}" if name else "")
    for finding in each.warnings[:limit]:
        yield from _row(label, _finding_text(finding), f"warning: {name}" if name else "")
    if each.warnings[limit:]:
        more = f"and {len(each.warnings) - limit} more; --json has all"
        yield from _row(label, more, f"warning: {name}" if name else "")


def _finding_text(finding: ScanFinding) -> str:
    place = f"{finding.path}:{finding.line}" if finding.line else finding.path
    times = f" ({finding.times} times)" if finding.times > 1 else ""
    excerpt = f': "{finding.excerpt}"' if finding.excerpt and finding.kind != "name" else ""
    return f"{place} {finding.message[:1].lower()}{finding.message[1:]}{times}{excerpt}"


def _script_text(script: Script) -> str:
    return f"{script.path} ({script.programs[0] if script.programs else 'nothing says what runs it'})"


def _some(texts: Iterable[str]) -> str:
    every = list(texts)
    more = f" and {len(every) - _SHOWN:,} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def _diff(each: Review, *, whole: bool) -> Iterator[str]:
    lines = list(_diff_lines(each.difference, whole=whole))
    yield from lines if whole else lines[:DIFF_LINES]
    if not whole and len(lines) > DIFF_LINES:
        rest = f"  ... {count(f'{len(lines) - DIFF_LINES:,}', 'line')} more"
        yield f"{rest} ({_changed_text(each.difference)}). To see all: --diff"


def _diff_lines(files: Iterable[FileDifference], *, whole: bool) -> Iterator[str]:
    for file in files:
        said = f": {line_of(file.said)}" if file.said else ""
        yield f"  {file.kind} {line_of(file.path)}{said}"
        for line in file.lines:
            cut = (
                line
                if whole or len(line) <= _LINE
                else f"{line[:_LINE]} ... {len(line) - _LINE:,} characters more"
            )
            yield f"  {_visible(cut)}"


def _visible(line: str) -> str:
    """Return a line of a file; that it ends with CR is shown, since it is another line then."""
    return visible(line, "program").rstrip()


def _changed_text(files: Sequence[FileDifference]) -> str:
    more = sum(line.startswith("+") for file in files for line in file.lines)
    less = sum(line.startswith("-") for file in files for line in file.lines)
    changed = len({file.path for file in files})
    return f"{count(changed, 'file')} changed, +{more} -{less}"


def _is_commit(resolved: str) -> bool:
    return len(resolved) in {40, 64} and all(each in "0123456789abcdef" for each in resolved)


def _row(label: str, text: str, start: str | None = None) -> Iterator[str]:
    """Yield a line with a label, wrapped under itself; nothing for no text."""
    first = start or f"  {label:<{_LABEL}}"
    plain = line_of(text)
    if plain:
        yield from _wrapped(plain, first, " " * (len(first) if not start else 2))


def _wrapped(text: str, first: str, then: str | None = None) -> Iterator[str]:
    following = first if then is None else then
    wrapped = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    yield from islice(wrapped, 40)
