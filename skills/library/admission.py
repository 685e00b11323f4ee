"""Which skills may be loaded now: known, open to the asker, not loaded yet, within the limits.

What a skill `requires` comes before it. One object judges all requests of a step in turn, so that parallel
requests cannot exceed a limit together. The graph's `select` node uses it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from skills_agent.skills.errors import SkillError, UnknownSkillError, list_names
from skills_agent.skills.format.requirements import meets, requirement_of, version_text
from skills_agent.skills.format.rules import MAX_NAME, Finding, diagnostic
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.skill import Diagnostic, SkillMetadata, SkillRef
from skills_agent.skills.text import one_line

Asker = Literal["user", "caller", "model", "operator"]


class NotAdmittedError(SkillError):
    """One request is refused; the text says why and what to do."""

    loaded: SkillRef | None = None
    """The skill, where it is refused because it is loaded: it can be activated with other arguments."""


LOAD_LIMIT: Final = "load-limit"
"""The code where as many skills are loaded as may be."""


class AdmittedSkills(NamedTuple):
    """What one request may load, in this order: what the skill requires, then the skill."""

    refs: tuple[SkillRef, ...]
    notes: tuple[str, ...] = ()
    """What of its requirements could not be had, for the model."""
    again: bool = False
    """It is loaded, and only activated with other arguments."""
    leaving: tuple[str, ...] = ()
    """Names of loaded skills that make room."""


class AdmissionControl:
    """Admits one request after another, counting what the earlier ones of the step took."""

    def __init__(
        self,
        catalog: Catalog,
        loaded: Mapping[str, int],
        tokens_of: Callable[[SkillRef], int],
        *,
        max_loaded: int,
        max_requests: int,
        max_tokens: int,
        window: int,
    ) -> None:
        """Begin a step: `loaded` has the tokens of each loaded skill, `max_requests` is the limit of a step.

        `tokens_of` returns what a skill would take; 0 where it cannot be read, which is told when it is
        loaded. The instructions of all may take `max_tokens`, a share of the `window` that the model reads.
        """
        self._catalog = catalog
        self._tokens_of = tokens_of
        self._max_tokens, self._window = max_tokens, window
        self._tokens = dict(loaded)
        self._loaded = frozenset(loaded)
        self._taken: list[str] = []
        self._max_loaded = max_loaded
        self.takes_no_room: Callable[[SkillMetadata], bool] = lambda _: False
        """Returns whether a skill is not loaded here: one that runs by itself, also twice in a step."""
        self.replaceable: Callable[[], Sequence[str]] = tuple
        """Returns the loaded skills that may make room, the first one first."""
        self._requests_left = self._max_requests = max_requests

    def admit(self, name: object, source: object, asker: Asker) -> AdmittedSkills:
        """Return what may be loaded for one request. The operator's requests are for loaded skills, anew.

        Raises NotAdmittedError, with a text for the model. How many skills may be loaded in one step bounds
        the model alone: a person or a caller has counted theirs.
        """
        if not isinstance(name, str) or not isinstance(source, str | None):
            raise NotAdmittedError("load_skill needs `name`, the name of a skill, as text.")
        skill = self._find(name, source or None, asker)
        if skill.name in self._loaded and asker != "operator":
            refused = NotAdmittedError(
                f"Skill {skill.name} is loaded, and its instructions are above. "
                "Now say what was found or done, or call the next tool."
            )
            refused.loaded = skill.ref
            raise refused
        if skill.name in self._taken and not self.takes_no_room(skill):
            raise NotAdmittedError(f"Skill {skill.name} is already being loaded in this step.")
        if not self._requests_left and asker == "model":
            raise NotAdmittedError(
                f"Skill {skill.name} was not loaded: at most {self._max_requests} skills in one step. "
                "Load it in the next one if it is still needed."
            )
        if self.takes_no_room(skill):
            self._requests_left -= asker == "model"
            return AdmittedSkills((skill.ref,))
        notes: list[str] = []
        required = self._with_required(skill, asker, (), set(), notes)
        needed = [each for each in required if each is skill or self._is_new(each.name)]
        leaving = self._leaving(skill.name, [each.name for each in needed if self._is_new(each.name)])
        needed = self._within_content(skill, needed, notes, leaving)
        self._requests_left -= asker == "model"
        self._loaded = self._loaded.difference(leaving)
        self._taken += [each.name for each in needed]
        refs = tuple(each.ref for each in needed)
        return AdmittedSkills(refs, tuple(dict.fromkeys(notes)), leaving=tuple(leaving))

    def admit_again(self, ref: SkillRef, tokens: int) -> AdmittedSkills:
        """Take the tokens of a loaded skill's text once more. Raises NotAdmittedError."""
        if tokens + sum(self._tokens.values()) > self._max_tokens:
            text = f"Skill {ref.name} was not activated again: its instructions take {_about(tokens)} tokens"
            raise NotAdmittedError(f"{text}; {self._room_text(self._tokens)}")
        self._tokens[ref.name] += tokens
        return AdmittedSkills((ref,), again=True)

    def _is_new(self, name: str) -> bool:
        return name not in self._loaded and name not in self._taken

    def _find(self, name: str, source: str | None, asker: Asker) -> SkillMetadata:
        try:
            # Whoever asked, the model reads a refusal, and what that names.
            skill = self._catalog.find(name, source, is_told=lambda skill: skill.model_invocable)
        except UnknownSkillError as error:
            found = self._catalog.get(name.partition("@")[0])  # Small models make up a source.
            if found is None or asker != "model" or len(error.sources) != 1:
                raise NotAdmittedError(str(error)) from error
            skill = found
        if asker == "model" and not skill.model_invocable:
            raise NotAdmittedError(
                f"Skill {skill.name} can only be activated by the user, with /{skill.name}."
            )
        if asker == "user" and not skill.user_invocable:
            raise NotAdmittedError(f"Skill {skill.name} can only be loaded by the model.")
        return skill

    def _with_required(
        self, skill: SkillMetadata, asker: Asker, path: tuple[str, ...], done: set[str], notes: list[str]
    ) -> Iterator[SkillMetadata]:
        """Yield what a skill requires, each once and before what requires it, then the skill."""
        path = (*path, skill.name)
        done.add(skill.name)
        # A chain that is longer than the limit of loaded skills is refused in any case.
        for written in skill.requires if len(path) <= self._max_loaded else ():
            name, specifier = requirement_of(written)
            if name in path:
                cycle = " -> ".join([*path[path.index(name) :], name])
                notes.append(f"The requirements form a cycle ({cycle}); each of them is loaded once.")
                continue
            required = self._catalog.get(name)
            if required is None:
                notes.append(f"{skill.name} requires {name}, and there is no such skill here.")
                continue
            if not required.model_invocable and (asker == "model" or not skill.trusted):
                # A skill of anybody's could load what its author keeps for people; the model reads the note.
                notes.append(f"{skill.name} requires a skill that only the user can load, by its own name.")
                continue
            if not meets(required.version, specifier):
                here = f"{name} {version_text(required.version)}"
                notes.append(f"{skill.name} requires {written}, which was not loaded: {here}.")
                continue
            if required.name not in done:
                yield from self._with_required(required, asker, path, done, notes)
        yield skill

    def _leaving(self, name: str, new: list[str]) -> list[str]:
        """Return the loaded skills that make room for new ones: none that another one requires.

        Raises NotAdmittedError where there is no room.
        """
        loaded, leaving = [*sorted(self._loaded), *self._taken], list[str]()
        for _ in range(len(loaded) + len(new) - self._max_loaded):
            staying = {*loaded, *new}.difference(leaving)
            skills = filter(None, map(self._catalog.get, staying))
            required = {requirement_of(written)[0] for skill in skills for written in skill.requires}
            replaceable = [each for each in self.replaceable() if each in self._loaded & staying - required]
            if not replaceable:
                raise self._no_room(name, new, loaded)
            leaving.append(replaceable[0])
        return leaving

    def _no_room(self, name: str, new: list[str], loaded: list[str]) -> NotAdmittedError:
        with_what = f" with what it requires ({', '.join(new[:-1])})" if new[1:] else ""
        return NotAdmittedError(
            f"Skill {name} was not loaded{with_what}: the limit of {self._max_loaded} loaded skills is "
            f"reached (loaded: {', '.join(loaded) or 'none'}). Unload one first: "
            "unload_skill does it, or the user with /unload NAME.",
            code=LOAD_LIMIT,
        )

    def _within_content(
        self, skill: SkillMetadata, needed: list[SkillMetadata], notes: list[str], leaving: list[str]
    ) -> list[SkillMetadata]:
        """Take the tokens of a skill, and of what it requires as far as it fits; a note names the rest."""
        gone = {*leaving, skill.name}
        others = {name: tokens for name, tokens in self._tokens.items() if name not in gone}
        own = self._tokens_of(skill.ref)
        if own + sum(others.values()) > self._max_tokens:
            text = f"Skill {skill.name} was not loaded: its instructions take {_about(own)} tokens"
            raise NotAdmittedError(f"{text}; {self._room_text(others)}", code=LOAD_LIMIT)
        self._tokens = {**others, skill.name: own}
        fitting = []
        for each in needed:
            tokens = own if each is skill else self._tokens_of(each.ref)
            if each is not skill and tokens + sum(self._tokens.values()) > self._max_tokens:
                text = f"{skill.name} requires {each.name}, which was not loaded: its instructions take"
                notes.append(f"{text} {_about(tokens)} tokens; {self._room_text(self._tokens)}")
                continue
            self._tokens[each.name] = tokens
            fitting.append(each)
        return fitting

    def _room_text(self, loaded: Mapping[str, int]) -> str:
        limit = f"the {self._max_tokens:,} that loaded skills may take of the model's window"
        whole = f"{limit} ({self._window:,})"
        if not loaded:
            return f"that is more than {whole}."
        takes = "take" if len(loaded) > 1 else "takes"
        names = list_names(sorted(loaded))
        return (
            f"{names} {takes} {sum(loaded.values()):,} of {whole}. Unload one that is not needed any more: "
            "unload_skill does it, or the user with /unload NAME."
        )


def _about(tokens: int) -> str:
    return f"about {tokens:,}"


def requirement_findings(catalog: Catalog) -> Iterator[Diagnostic]:
    """Find requirements that no skill meets, and those that lead back to the skill itself."""
    for skill in catalog.skills:
        for written in skill.requires:
            name, specifier = requirement_of(written)
            shown = one_line(written, MAX_NAME)
            required = catalog.get(name)
            if required is None:
                message = f"It requires `{shown}`, and there is no such skill here."
                yield diagnostic(Finding("requires-missing", message), skill.path)
                continue
            if not meets(required.version, specifier):
                here = f"{required.name} {version_text(required.version)}"
                message = f"It requires `{shown}`, and {here}."
                yield diagnostic(Finding("requires-version", message), skill.path)
            if way := _way(catalog, required.name, skill.name):
                message = f"The requirements form a cycle: {' -> '.join([skill.name, *way])}."
                yield diagnostic(Finding("requires-cycle", message), skill.path)


def _way(catalog: Catalog, start: str, end: str) -> list[str]:
    """Return the shortest way of requirements from a skill to another one; empty where there is none."""
    ways, seen = [[start]], {start}
    for way in ways:  # grows while it is walked
        if way[-1] == end:
            return way
        skill = catalog.get(way[-1])
        for name, _ in map(requirement_of, skill.requires if skill else ()):
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def is_in_set(names: Collection[str], entries: Collection[str]) -> bool:
    """Return whether a skill, by its name and `name@source`, is in a set; `!` takes what fits out."""
    out = [entry[1:] for entry in entries if entry.startswith("!")]
    into = [entry for entry in entries if not entry.startswith("!")] or ["*"]
    return _any_fits(into, names) and not _any_fits(out, names)


def _any_fits(globs: Collection[str], names: Collection[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs for name in names)
