"""Write release notes from a git repository's log: grouped changes, people, references, size."""

import argparse
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from changes import SECTIONS, Change, people, read_changes, references_of
from history import (
    Commit,
    HistoryError,
    Size,
    Span,
    check_repository,
    count_commits,
    find_commit,
    is_shallow,
    last_tag,
    measure,
    read_commits,
    tag_on,
)

EPILOG = "Exit codes: 0 done; 1 git is missing or failed; 2 wrong call, not a repository, no commits."


@dataclass(frozen=True, slots=True)
class Notes:
    """What the notes are written from."""

    span: Span
    commits: tuple[Commit, ...]
    total: int
    """Commits in the span; more than `commits` holds when a limit cut them."""
    changes: tuple[Change, ...]
    size: Size | None
    """None when git could not compare the two ends."""
    remarks: tuple[str, ...]

    @property
    def merges(self) -> int:
        """Return how many of the commits are merges."""
        return sum(commit.parents > 1 for commit in self.commits)

    def references(self) -> list[str]:
        """Return every issue or pull request that a message names, merges included."""
        return sorted(
            {name for commit in self.commits for name in references_of(commit)}, key=reference_order
        )


def reference_order(name: str) -> tuple[str, int]:
    """Sort `#9` before `#10`."""
    digits = "".join(char for char in name if char.isdigit())
    return (name.rpartition("#")[0], int(digits[-9:] or 0))


def collect(repo: Path, start: str | None, to: str, limit: int) -> Notes:
    """Read everything that the notes need; HistoryError says why it is not possible."""
    check_repository(repo)
    end = find_commit(repo, to)
    remarks = []
    if start is None:
        start = last_tag(repo, end)
        if start is None:
            remarks.append("No earlier tag: these notes cover the whole history.")
    base = find_commit(repo, start) if start is not None else None
    to = (tag_on(repo, end) or to) if to == "HEAD" else to
    commits = tuple(read_commits(repo, base, end, limit))
    total = count_commits(repo, base, end)
    if total > len(commits):
        remarks.append(f"Only the newest {len(commits):,} of {total:,} commits are covered (--limit).")
    if is_shallow(repo):
        remarks.append("A shallow clone: older commits are missing (git fetch --unshallow).")
    try:
        size = measure(repo, base, end)
    except HistoryError as error:
        size = None
        remarks.append(f"Changed lines are not known: {error}.")
    return Notes(Span(start, to), commits, total, tuple(read_changes(commits)), size, tuple(remarks))


def plural(number: int, noun: str) -> str:
    """Return `1 commit`, `2 commits`, `2 people`."""
    many = {"person": "people"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else many}"


def summary(notes: Notes) -> str:
    """Return the span's figures as one line."""
    parts = [plural(notes.total, "commit")]
    if notes.merges:
        parts[0] += f" ({plural(notes.merges, 'merge')})"
    parts[0] += f" by {plural(len(people(notes.commits)), 'person')}"
    if notes.commits:
        parts.append(f"{notes.commits[-1].date} to {notes.commits[0].date}")
    if notes.size:
        files, added, deleted = notes.size
        lines = f"{plural(added, 'line')} added, {deleted:,} deleted"
        parts.append(f"{plural(files, 'file')} changed, {lines}")
    return f"{'; '.join(parts)}."


def escaped(text: str) -> str:
    """Return text in which Markdown renders no HTML; code spans are left as they are."""
    return "`".join(
        part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(text.split("`"))
    )


def entry(change: Change) -> str:
    """Return one line of the list."""
    scope = f"**{escaped(change.scope)}:** " if change.scope else ""
    shown = [name for name in change.references if name not in change.text]
    source = ", ".join([change.commit.short, *shown])
    undone = f" (taken back by {change.reverted_by})" if change.reverted_by else ""
    consequence = f"\n  {escaped(change.breaking)}" if change.breaking else ""
    return f"- {scope}{escaped(change.text)} ({source}){undone}{consequence}"


def markdown_lines(notes: Notes) -> Iterator[str]:
    """Yield the notes line by line."""
    yield f"# Release notes: {notes.span}"
    yield ""
    yield summary(notes)
    for remark in notes.remarks:
        yield ""
        yield f"> {remark}"
    if not notes.changes:
        yield ""
        yield "No changes in this range."
    for section, title in SECTIONS.items():
        changes = [change for change in notes.changes if change.section == section]
        if changes:
            yield ""
            yield f"## {title}"
            yield ""
            yield from map(entry, changes)
    names = people(notes.commits)
    if names:
        yield ""
        yield "## Contributors"
        yield ""
        yield ", ".join(f"{escaped(name)} ({number:,})" for name, number in names.items())
    references = notes.references()
    if references:
        yield ""
        yield "## References"
        yield ""
        yield ", ".join(references)


def as_json(notes: Notes) -> str:
    """Return the notes for programs."""
    record = {
        "from": notes.span.start,
        "to": notes.span.to,
        "commits": notes.total,
        "covered": len(notes.commits),
        "merges": notes.merges,
        "size": notes.size._asdict() if notes.size else None,
        "remarks": notes.remarks,
        "contributors": people(notes.commits),
        "references": notes.references(),
        "sections": {
            section: [change_record(change) for change in notes.changes if change.section == section]
            for section in SECTIONS
        },
    }
    return json.dumps(record, ensure_ascii=False, indent=2)


def change_record(change: Change) -> dict[str, object]:
    """Return one change for JSON."""
    return {
        "text": change.text,
        "type": change.type,
        "scope": change.scope,
        "breaking": change.breaking,
        "references": change.references,
        "reverted_by": change.reverted_by or None,
        "commit": change.commit.sha,
        "author": change.commit.author,
        "date": change.commit.date,
    }


def commit_limit(text: str) -> int:
    """Return a whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text)):
        raise argparse.ArgumentTypeError(f"a whole number of at least 1, not {text!r}")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="release_notes.py", description=__doc__, epilog=EPILOG)
    add = parser.add_argument
    add("--repo", type=Path, default=Path(), metavar="DIR", help="the repository (this folder)")
    add("--from", dest="start", metavar="REF", help="the release before (the last tag before --to)")
    add("--to", default="HEAD", metavar="REF", help="the release to describe (HEAD)")
    add("--format", choices=("markdown", "json"), default="markdown", help="what to print (markdown)")
    add("--limit", type=commit_limit, default=2_000, metavar="N", help="commits to read at most (2000)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print the notes and return the exit code."""
    options = build_parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        notes = collect(options.repo, options.start, options.to, options.limit)
    except HistoryError as error:
        print(f"release_notes.py: {error}", file=sys.stderr)
        return error.exit_code
    print(as_json(notes) if options.format == "json" else "\n".join(markdown_lines(notes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
