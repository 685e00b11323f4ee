"""skills-agent skills triggers: which requests a skill is chosen for, and a better description of it."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from skills_agent.evals.cases.choosing import Choice, Chooser, Labelled, WordChooser
from skills_agent.evals.cases.drafting import Written, draft
from skills_agent.evals.cases.errors import EvalFileError
from skills_agent.evals.cases.improving import (
    HOLDOUT,
    LEAST,
    Improvement,
    PieceProposer,
    Score,
    improve,
    split,
)
from skills_agent.evals.cases.read import find_files, read_set
from skills_agent.evals.cases.statistics import MIN_DISCORDANT, mcnemar, wilson
from skills_agent.evals.cases.trajectory import Spent
from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json, table
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.rewriting import NotRewrittenError, with_description
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import count

if TYPE_CHECKING:
    from skills_agent.evals.agent_choices import AgentChooser
    from skills_agent.evals.selection import ModelLab

_NEIGHBOURS: Final = 5
_NOBODY: Final = "(none)"


class Lab(NamedTuple):
    """One skill among the others of its catalog, and requests for and not for it."""

    skill: SkillMetadata
    written: Written
    descriptions: Mapping[str, str]
    """Of every skill that a model may load, this one too."""
    requests: tuple[Labelled, ...]
    skipped: tuple[str, ...]

    def with_requests(self, requests: Sequence[Labelled]) -> "Lab":
        """Return the same with more requests, each text once."""
        unique = {each.text: each for each in reversed([*self.requests, *requests])}
        return self._replace(requests=tuple(reversed(unique.values())))

    @property
    def others(self) -> dict[str, str]:
        """Return the descriptions of the other skills."""
        return {name: text for name, text in self.descriptions.items() if name != self.skill.name}


class _Asked(NamedTuple):
    """A model that is asked."""

    name: str
    chooser: "AgentChooser"
    lab: "ModelLab"

    @property
    def spent(self) -> Spent:
        """Return what all its answers took."""
        return self.chooser.spent + self.lab.spent


@click.command(
    epilog=options.examples(
        "skills triggers csv-report",
        "skills triggers my-skill --requests requests.json --improve",
        "skills triggers my-skill --save evals/triggers.json",
    )
)
@click.argument("name")
@click.option(
    "--requests",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Requests with `should_trigger`, in any format that `eval` reads. [default: the skill's evals]",
)
@click.option("--draft", "drafted", is_flag=True, help="Draft requests, too, where the skill has its own.")
@click.option(
    "--improve", "better", is_flag=True, help="Search for a better description; ask, then write it."
)
@click.option(
    "--model",
    metavar="NAME",
    help="Let this model draft and write, and the agent choose with it. [default: by words, no model]",
)
@click.option("--seed", type=int, default=42, show_default=True, help="Of the split into two halves.")
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the requests into a new file, to be edited: [{query, should_trigger}].",
)
@options.unasked
@options.folders
@options.as_json
def triggers(
    name: str,
    *,
    files: tuple[Path, ...],
    drafted: bool,
    better: bool,
    model: str | None,
    seed: int,
    save: Path | None,
    yes: bool,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show which requests skill NAME is chosen for, which neighbour wins the others, and why.

    By words, without a model: names and descriptions are compared with the requests, as a model sees no more
    before it loads a skill. With --model the agent itself is asked with that model, a call for each request:
    what it loads first is the choice.
    """
    settings = Settings.load(workspace)
    registry = registry_of(settings, skills_dirs)
    lab = _open(registry, name, files)
    asked = _asked(settings, model, lab, registry) if model else None
    if drafted or not lab.requests:
        near = _neighbours(registry, registry.refresh(), lab.skill)
        lab = lab.with_requests(asked.lab.draft(near) if asked else draft(lab.written, near))
    chooser: Chooser = asked.chooser if asked else WordChooser()
    choices = chooser.choose([each.text for each in lab.requests], lab.descriptions)
    found = _improve(lab, chooser, asked, seed) if better else None
    if save:
        _save(save, lab.requests)
    if as_json:
        print_json(_record(lab, choices, found, seed, asked))
    else:
        _print_choices(lab, choices, asked)
        if found:
            _print_improvement(found, seed)
        if save:
            echo(f"\nWrote {save}: {count(len(lab.requests), 'request')}. Make them what people really ask.")
    if found and found.after != found.before and _differing(found).is_better:
        place = _place(registry, lab.skill)
        if not as_json:
            confirm(f"Write it to {place}?", yes=yes)
        elif not yes:
            return
        _write(place, found.after)
        if not as_json:
            echo(f"Wrote {place}. What was there: {found.before}")


def _open(registry: Registry, name: str, files: Sequence[Path]) -> Lab:
    catalog = registry.refresh()
    skill = catalog.find(name)
    if not skill.model_invocable:
        raise click.UsageError(f"only a person loads {skill.name}: no request triggers it")
    descriptions = {each.name: each.described for each in catalog.skills if each.model_invocable}
    requests, skipped = _read(files or _own_sets(registry, skill), skill.name)
    lab = Lab(skill, _written(registry, skill), descriptions, (), tuple(skipped))
    return lab.with_requests(requests)


def _asked(settings: Settings, name: str, lab: Lab, registry: Registry) -> _Asked:
    from skills_agent.evals.agent_choices import AgentChooser
    from skills_agent.evals.prices import price_of
    from skills_agent.evals.selection import ModelLab
    from skills_agent.graph.models.local import LocalChatModel
    from skills_agent.graph.models.provider import resolve_model
    from skills_agent.graph.places import process_environment

    model = resolve_model(name, environment=process_environment(), parameters=settings.model_parameters)
    if isinstance(model, LocalChatModel):
        raise click.UsageError(f"{name} is no language model. Leave out --model: then words choose")
    return _Asked(
        name,
        AgentChooser(settings, name, model, lab.skill, registry.sources),
        ModelLab(name, model, lab.written, price_of(name, settings.prices)),
    )


def _spent_text(spent: Spent) -> str:
    usd = f"{spent.usd:.4f} USD" if spent.usd is not None else "its price is not in the setting `prices`"
    calls = count(f"{spent.model_calls:,}" if spent.model_calls != 1 else 1, "model call")
    return f"{calls}, {spent.tokens:,} tokens, {spent.cached_tokens:,} of them cached, {usd}"


def _written(registry: Registry, skill: SkillMetadata) -> Written:
    try:
        instructions = registry.load(skill.ref).instructions
    except SkillError:  # one that cannot be loaded is described all the same
        instructions = ""
    return Written(skill.name, skill.described, instructions)


def _own_sets(registry: Registry, skill: SkillMetadata) -> Sequence[Path]:
    folder = _folder(registry, skill)
    return find_files(folder) if folder else ()


def _folder(registry: Registry, skill: SkillMetadata) -> Path | None:
    source = registry.source_of(skill.source, skill.path)
    return source.root(skill.path) if source else None


def _read(files: Iterable[Path], name: str) -> tuple[list[Labelled], list[str]]:
    """Return the requests of cases that say whether they are for a skill, and what was passed over."""
    requests: list[Labelled] = []
    skipped: list[str] = []
    for file in files:
        try:
            found = read_set(file, name)
        except EvalFileError as error:
            skipped.append(str(error))
            continue
        skipped += found.skipped
        for case in found.cases:
            if case.load or not (expected := case.expect.skills):
                continue
            is_named = name in expected.names
            wanted = is_named and expected.mode != "none"
            if wanted or case.skill == name or not expected.names or not is_named:
                requests.append(Labelled(case.turns[0], wanted, f"of {file.name}"))
    return requests, skipped


def _neighbours(registry: Registry, catalog: Catalog, skill: SkillMetadata) -> list[Written]:
    hits = catalog.search(f"{skill.name} {skill.description}", _NEIGHBOURS + 1)
    near = [hit.skill for hit in hits if hit.skill.name != skill.name and hit.skill.model_invocable]
    near += [each for each in catalog.skills if each.model_invocable and each not in [skill, *near]]
    return [_written(registry, each) for each in near[:_NEIGHBOURS]]


def _improve(lab: Lab, chooser: Chooser, asked: _Asked | None, seed: int) -> Improvement:
    parts = split(lab.requests, seed)
    for wanted in (True, False):
        if not any(each.wanted is wanted for each in parts.held_out):
            kind = "for it" if wanted else "that are not for it"
            raise click.ClickException(
                f"--improve needs {LEAST} requests {kind}, and there are "
                f"{sum(each.wanted is wanted for each in lab.requests)}. Begin a file of them: "
                f"skills-agent skills triggers {lab.skill.name} --save requests.json"
            )
    if asked:
        from skills_agent.evals.selection import ROUNDS

        return improve(lab.written, lab.others, parts, chooser, asked.lab, ROUNDS)
    proposer = PieceProposer(lab.written, parts.train, chooser, lab.others)
    return improve(lab.written, lab.others, parts, chooser, proposer)


def _print_choices(lab: Lab, choices: Sequence[Choice], asked: _Asked | None) -> None:
    name = lab.skill.name
    origins = Counter(each.origin for each in lab.requests)
    said = ", ".join(f"{number} {origin}" for origin, number in origins.items())
    many = count(len(lab.requests), "request")
    who = f"Chosen by the agent with {asked.name}" if asked else "Chosen by words, without a model"
    echo(f"{who}: {name} among {count(len(lab.descriptions), 'skill')}, {many}: {said}.")
    if not asked:
        echo("A language model knows other words for the same thing, too: --model NAME asks one.")
    echo()
    rows = [
        (
            "right" if (choice.name == name) is each.wanted else "WRONG",
            choice.name or _NOBODY,
            line_of(each.text, 60),
            choice.why,
        )
        for each, choice in zip(lab.requests, choices, strict=True)
    ]
    for wanted, title in ((True, f"For {name}"), (False, f"Not for {name}")):
        part = [row for row, each in zip(rows, lab.requests, strict=True) if each.wanted is wanted]
        if not part:
            continue
        echo(f"{title}:")
        table([("", "chosen", "request", "because of"), *sorted(part, key=lambda row: row[0] == "right")])
        echo()
    hits = [each.wanted for each, choice in zip(lab.requests, choices, strict=True) if choice.name == name]
    wanted_in_all = sum(each.wanted for each in lab.requests)
    echo(f"recall     {_share(sum(hits), wanted_in_all)} of the requests for it reach it")
    echo(f"precision  {_share(sum(hits), len(hits))} of those that reach it are for it")
    lost = Counter(
        choice.name or _NOBODY
        for each, choice in zip(lab.requests, choices, strict=True)
        if each.wanted and choice.name != name
    )
    if lost:
        echo("lost to    " + ", ".join(f"{other} ({many})" for other, many in lost.most_common()))
    if asked:
        echo(f"spent      {_spent_text(asked.spent)}")
    for sentence in lab.skipped:
        echo(f"skipped: {line_of(sentence)}")


def _share(part: int, of: int) -> str:
    if not of:
        return "0 of 0"
    share = wilson(part, of)
    return f"{part} of {of} ({share.low:.0%} to {share.high:.0%})"


def _print_improvement(found: Improvement, seed: int) -> None:
    tried = count(found.tried, "description")
    echo(f"\nSearched {tried}, seed {seed}; {HOLDOUT:.0%} of the requests held out.\n")
    if found.after == found.before:
        echo(f"{verdict(found)}\n  {line_of(found.before)}")
        return
    table(
        [
            ("", "training", "held out"),
            ("now", _score_text(found.train_before), _score_text(found.held_out_before)),
            ("found", _score_text(found.train_after), _score_text(found.held_out_after)),
        ]
    )
    echo(f"\n{verdict(found)}\n")
    for mark, text in (("-", found.before), ("+", found.after)):
        echo(f"{mark} {line_of(text)}")


def _score_text(score: Score) -> str:
    return f"{score.right} of {score.of} right"


class _Differing(NamedTuple):
    """How many held-out requests a found description sends right where the old one does not, and reversed."""

    wins: int
    losses: int

    @property
    def is_better(self) -> bool:
        """Return whether it may be written: what is no better is not even offered."""
        return self.wins > self.losses


def _differing(found: Improvement) -> _Differing:
    pairs = list(zip(found.held_out_before.taken, found.held_out_after.taken, strict=True))
    return _Differing(pairs.count((False, True)), pairs.count((True, False)))


def verdict(found: Improvement) -> str:
    """Say what the held-out requests show: these alone, which chose nothing."""
    wins, losses = _differing(found)
    if found.after == found.before:
        return "None is better on the training requests. The description stays."
    if wins <= losses:
        return (
            "Not better on the held-out requests: it learned the training requests by heart. "
            "The description stays."
        )
    if wins + losses < MIN_DISCORDANT:
        return (
            f"Better on {wins} held-out requests, worse on {losses}: too few to rule out chance. "
            f"{MIN_DISCORDANT} that differ are the least; add requests."
        )
    p = mcnemar(wins, losses)
    return f"Better on {wins} held-out requests, worse on {losses} (p = {p:.3f}, McNemar)."


def _record(
    lab: Lab, choices: Sequence[Choice], found: Improvement | None, seed: int, asked: _Asked | None
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": lab.skill.name,
        "skills": sorted(lab.descriptions),
        "requests": [
            {
                "query": each.text,
                "should_trigger": each.wanted,
                "origin": each.origin,
                "chosen": choice.name or None,
                "why": choice.why,
                "right": (choice.name == lab.skill.name) is each.wanted,
            }
            for each, choice in zip(lab.requests, choices, strict=True)
        ],
        "skipped": list(lab.skipped),
    }
    if asked:
        record["spent"] = asked.spent
    if found:
        record["improvement"] = {**found._asdict(), "seed": seed, "verdict": verdict(found)} | {
            key: value._asdict() for key, value in found._asdict().items() if isinstance(value, Score)
        }
    return record


def _save(file: Path, requests: Sequence[Labelled]) -> None:
    rows = [{"query": each.text, "should_trigger": each.wanted} for each in requests]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    except FileExistsError as error:
        raise click.ClickException(f"{file} exists already. Choose another name.") from error
    except OSError as error:
        raise click.ClickException(f"Cannot write {file}: {error.strerror}.") from error


def _place(registry: Registry, skill: SkillMetadata) -> Path:
    """Return the SKILL.md that a description may be written to. Raises ClickException for any other."""
    folder = _folder(registry, skill)
    reason = ""
    if folder is None or skill.source == "bundled":
        reason = "it does not lie in a folder of yours"
    elif _is_locked(folder):
        reason = "it was installed from elsewhere, and is changed there"
    if folder is None or reason:
        raise click.ClickException(f"{skill.name} stays as it is: {reason}. The description is above.")
    return folder / SKILL_FILE


def _is_locked(folder: Path) -> bool:
    """Return whether the lock of installed skills lists the skill of a folder."""
    lock = folder.parent / "skills.lock"
    name = f'\nname = "{folder.name}"\n'
    return lock.is_file() and name in lock.read_text(encoding="utf-8", errors="replace")


def _write(file: Path, description: str) -> None:
    """Put another description into a SKILL.md, in one step."""
    draft_name = ""
    try:
        raw = file.read_bytes()
        text = with_description(raw, description)
        descriptor, draft_name = tempfile.mkstemp(prefix=".SKILL-", dir=file.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft_name).chmod(file.stat().st_mode & 0o777)
        Path(draft_name).replace(file)
    except NotRewrittenError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if draft_name:
            with suppress(OSError):
                Path(draft_name).unlink()
        raise click.ClickException(f"Cannot write {file}: {error.strerror}.") from error
