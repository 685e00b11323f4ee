"""Count a text: words, sentences, paragraphs, reading time, readability, terms; outline; log levels."""

import argparse
import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from documents import KINDS, Document, StatsError, read_document
from loglines import LogLines, read_log
from prose import (
    WORDS_PER_MINUTE,
    Readability,
    Sentence,
    frequent_terms,
    is_unspaced,
    rate,
    sentences_of,
    words_of,
)

EPILOG = """\
Markdown: front matter, comments and fenced code are not counted as words; headings are no sentences.
Exit codes: 0 done; 1 a file cannot be read as text; 2 wrong call or missing file.
"""
LONGEST = 3
"""Sentences listed as the longest."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one document."""

    document: Document
    words: int
    sentences: list[Sentence]
    readability: Readability | str
    """A reason instead of figures when they would mean nothing."""
    terms: list[tuple[str, int]]
    log: LogLines | None
    unspaced: bool

    @property
    def minutes(self) -> int:
        """Return the reading time, rounded up."""
        return math.ceil(self.words / WORDS_PER_MINUTE)

    @property
    def words_per_sentence(self) -> float:
        """Return the mean length of a sentence."""
        total = sum(sentence.words for sentence in self.sentences)
        return round(total / len(self.sentences), 1) if self.sentences else 0.0

    def longest(self) -> list[Sentence]:
        """Return the longest sentences, the first of equally long ones first."""
        return sorted(self.sentences, key=lambda sentence: -sentence.words)[:LONGEST]


def measure(document: Document, top: int) -> Stats:
    """Return the figures of one document."""
    if document.kind == "log":
        words = [word for line in document.lines for word in words_of(line)]
        return Stats(
            document, len(words), [], "a log is no prose", [], read_log(document.lines, top), unspaced=False
        )
    texts = [*(block.text for block in document.blocks), *(heading.text for heading in document.headings)]
    words = [word for text in texts for word in words_of(text)]
    sentences = sentences_of(document.blocks)
    unspaced = is_unspaced(" ".join(texts))
    return Stats(document, len(words), sentences, rate(sentences), frequent_terms(words, top), None, unspaced)


def shown(text: str, limit: int = 120) -> str:
    """Return text that is safe to print on one line."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def count(number: int, noun: str) -> str:
    """Return `1 word`, `2 words`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def text_lines(stats: Stats) -> Iterator[str]:
    """Yield the figures for people and models."""
    document = stats.document
    yield f"File: {document.name} ({document.kind}, {document.encoding}, {document.size:,} bytes)"
    yield f"Lines: {len(document.lines):,}"
    yield f"Words: {stats.words:,}"
    if stats.log:
        yield from log_lines(stats.log)
        return
    if stats.unspaced:
        yield "Note: this script has no spaces between words: words, terms and reading time mean little"
    yield f"Sentences: {len(stats.sentences):,} ({stats.words_per_sentence} words on average)"
    yield f"Paragraphs: {len(document.blocks):,}"
    yield f"Reading time: {stats.minutes:,} min at {WORDS_PER_MINUTE} words a minute"
    yield f"Readability: {readability_words(stats.readability)}"
    yield f"Links: {document.links:,}; images: {document.images:,}"
    if document.code_blocks:
        blocks = count(document.code_blocks, "block")
        yield f"Code: {count(document.code_lines, 'line')} in {blocks}, not counted as words"
    if stats.terms:
        terms = ", ".join(f"{shown(word, 40)} {number:,}" for word, number in stats.terms)
        yield f"Most frequent terms: {terms}"
    if stats.sentences:
        yield "Longest sentences:"
        for sentence in stats.longest():
            length = count(sentence.words, "word")
            yield f"- {length}, paragraph at line {sentence.line:,}: {shown(sentence.text)}"
    if document.headings:
        yield f"Outline ({count(len(document.headings), 'heading')}):"
        for heading in document.headings:
            yield f"{'  ' * (heading.level - 1)}- {shown(heading.text)} (line {heading.line:,})"


def readability_words(readability: Readability | str) -> str:
    """Return the score with what it means, or why there is none."""
    if isinstance(readability, str):
        return f"not given: {readability}"
    ease, grade, words = readability
    return f"Flesch reading ease {ease} ({words}); Flesch-Kincaid grade {grade}; valid for English prose only"


def log_lines(log: LogLines) -> Iterator[str]:
    """Yield the figures of a log."""
    if log.first:
        yield f"Time: {log.first} to {log.last} (first and last line with a time)"
    levels = ", ".join(f"{level} {number:,}" for level, number in log.levels.items())
    yield f"Levels: {levels or 'none found'}"
    yield f"Different messages: {log.kinds:,}, with numbers masked; most frequent:"
    for message, number in log.messages:
        yield f"- {number:,}: {shown(message)}"


def record(stats: Stats) -> dict[str, object]:
    """Return the figures for JSON."""
    document = stats.document
    log = stats.log
    return {
        "file": document.name,
        "kind": document.kind,
        "encoding": document.encoding,
        "bytes": document.size,
        "lines": len(document.lines),
        "words": stats.words,
        "sentences": len(stats.sentences),
        "words_per_sentence": stats.words_per_sentence,
        "paragraphs": len(document.blocks),
        "reading_minutes": stats.minutes,
        "readability": stats.readability
        if isinstance(stats.readability, str)
        else stats.readability._asdict(),
        "links": document.links,
        "images": document.images,
        "code_blocks": document.code_blocks,
        "code_lines": document.code_lines,
        "terms": stats.terms,
        "longest_sentences": [sentence._asdict() for sentence in stats.longest()],
        "headings": [heading._asdict() for heading in document.headings],
        "log": {"levels": log.levels, "first": log.first, "last": log.last, "messages": log.messages}
        if log
        else None,
    }


def total_line(all_stats: Sequence[Stats]) -> str:
    """Return the sums over several files."""
    words = sum(stats.words for stats in all_stats)
    lines = sum(len(stats.document.lines) for stats in all_stats)
    return f"All {len(all_stats)} files: lines {lines:,}, words {words:,}"


def whole_number(text: str) -> int:
    """Return a whole number of at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise argparse.ArgumentTypeError(f"a whole number, not {text!r}")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="stats.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="text, Markdown or log files; - is standard input")
    add("--kind", choices=KINDS, help="what the files are (found by name and content)")
    add("--top", type=whole_number, default=10, metavar="N", help="terms and log messages listed (10)")
    add("--json", action="store_true", help="print JSON: one record for each file")
    return parser


def main(argv: Sequence[str] | None = None, stdin: BinaryIO | None = None) -> int:
    """Print the figures and return the exit code."""
    options = build_parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    source = stdin or sys.stdin.buffer
    try:
        documents = [read_document(name, source, options.kind) for name in options.files]
    except StatsError as error:
        print(f"stats.py: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"stats.py: cannot read: {error}", file=sys.stderr)
        return 1
    all_stats = [measure(document, options.top) for document in documents]
    if options.json:
        print(json.dumps([record(stats) for stats in all_stats], ensure_ascii=False, indent=2))
        return 0
    print("\n\n".join("\n".join(text_lines(stats)) for stats in all_stats))
    if len(all_stats) > 1:
        print(f"\n{total_line(all_stats)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
