"""What a commit message says: kind of change, scope, breaking or not, references, people.

Conventional Commits (conventionalcommits.org/en/v1.0.0) first, the first verb of a plain message second.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from history import Commit

SECTIONS = {
    "breaking": "Breaking changes",
    "security": "Security",
    "features": "Features",
    "fixes": "Fixes",
    "performance": "Performance",
    "removals": "Removed and deprecated",
    "changes": "Changes",
    "documentation": "Documentation",
    "reverts": "Reverts",
    "maintenance": "Maintenance",
    "other": "Other",
}
"""Key -> title, in the order of the notes."""
TYPES = {
    "features": "feat feature",
    "fixes": "fix bugfix hotfix",
    "performance": "perf",
    "security": "security sec",
    "removals": "remove removal deprecate deprecation",
    "changes": "refactor style change improvement",
    "documentation": "docs doc",
    "reverts": "revert",
    "maintenance": "build ci test tests chore deps dep release infra",
}
VERBS = {
    "features": "add introduce implement support allow enable create new",
    "fixes": "fix correct repair resolve prevent avoid handle",
    "performance": "optimize optimise accelerate speed cache",
    "removals": "remove drop dropped delete deprecate",
    "documentation": "document doc readme typo changelog",
    "reverts": "revert",
    "maintenance": "bump pin release prepare lint test ci build chore",
    "changes": "change update improve rename move refactor simplify rework rewrite replace use switch make"
    " clean extract split upgrade",
}
SECTION_OF_TYPE = {word: section for section, words in TYPES.items() for word in words.split()}
SECTION_OF_VERB = {word: section for section, words in VERBS.items() for word in words.split()}

CONVENTIONAL = re.compile(r"(?P<type>[A-Za-z]+)(?:\((?P<scope>[^()]*)\))?(?P<bang>!)?:\s*(?P<text>\S.*)")
PREFIX = re.compile(r"^[\w./*,-]+: ")
FOOTER = re.compile(r"^BREAKING[ -]CHANGE:\s*(.+(?:\n(?![\w-]+(?:: | #)|\s*\n).+)*)", re.MULTILINE)
REVERTED = re.compile(r"This reverts commit ([0-9a-f]{40,64})")
CO_AUTHOR = re.compile(r"^Co-authored-by:\s*([^<\n]+?)\s*(?:<[^>\n]*>)?\s*$", re.MULTILINE | re.IGNORECASE)
REFERENCE = re.compile(r"(?<![\w/&.-])((?:[\w.-]+/[\w.-]+)?#\d{1,9}|GH-\d{1,9})\b")


class Change(NamedTuple):
    """One commit as an entry of the notes."""

    section: str
    type: str
    """The conventional type as written; empty for a plain message."""
    scope: str
    text: str
    breaking: str
    """What breaks, from the footer; empty when it does not say."""
    references: tuple[str, ...]
    reverted_by: str
    """Short id of the commit that takes this one back; empty when none does."""
    commit: Commit


def read_changes(commits: Iterable[Commit]) -> list[Change]:
    """Return an entry for every commit that is no merge, in the same order."""
    listed = [commit for commit in commits if commit.parents < 2]
    reverts = {sha: commit.short for commit in listed for sha in REVERTED.findall(commit.body)}
    return [read_change(commit, reverts.get(commit.sha, "")) for commit in listed]


def read_change(commit: Commit, undone: str = "") -> Change:
    """Return one commit's entry."""
    subject = one_line(commit.subject) or "(no message)"
    references = references_of(commit)
    footer = FOOTER.search(commit.body)
    breaking = one_line(footer[1]) if footer else ""
    match = CONVENTIONAL.fullmatch(subject)
    kind = match["type"].lower() if match else ""
    if match is None or kind not in SECTION_OF_TYPE:
        section = "breaking" if footer else section_of_words(subject)
        return Change(section, "", "", subject, breaking, references, undone, commit)
    section = "breaking" if footer or match["bang"] else SECTION_OF_TYPE[kind]
    scope = (match["scope"] or "").strip()
    return Change(section, kind, scope, match["text"], breaking, references, undone, commit)


def section_of_words(subject: str) -> str:
    """Return the section that the verb of a plain message points to, as in `Fixed …` or `parser: fix …`."""
    words = re.findall(r"[A-Za-z]+", PREFIX.sub("", subject).lower())
    stems = [words[0].removesuffix(end) for end in ("", "s", "es", "d", "ed")] if words else []
    return next((SECTION_OF_VERB[stem] for stem in stems if stem in SECTION_OF_VERB), "other")


def references_of(commit: Commit) -> tuple[str, ...]:
    """Return the issues and pull requests that a message names, each once."""
    return tuple(dict.fromkeys(REFERENCE.findall(f"{commit.subject}\n{commit.body}")))


def one_line(text: str) -> str:
    """Return text without control characters, its whitespace collapsed."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def people(commits: Iterable[Commit]) -> dict[str, int]:
    """Return authors and co-authors with their number of commits, most first; merges do not count."""
    counts: dict[str, int] = {}
    for commit in commits:
        if commit.parents < 2:
            names = [commit.author, *CO_AUTHOR.findall(commit.body)]
            for name in dict.fromkeys(one_line(name) for name in names):
                counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0].casefold())))
