"""Read a text and take it apart: prose blocks, headings, links, code; or the lines of a log."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

Kind = Literal["text", "markdown", "log"]
KINDS: tuple[Kind, ...] = ("text", "markdown", "log")

LARGEST = 50_000_000
"""Bytes of one file; the whole text is held in memory."""
SUFFIXES: dict[str, Kind] = {".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".log": "log"}
SAMPLE_LINES = 200

STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)\]?")
LEVEL = re.compile(r"\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|PANIC)\b")
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
TABLE_RULE = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\|?\s*")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\](?:\((?P<url>[^()\s]*(?:\([^()\s]*\))?[^()\s]*)[^()]*\)|\[[^\]]*\])"
    r"|<?(?P<bare>https?://[^\s<>)\]]+)>?"
)
MARKS = re.compile(r"[*~]+|(?<!\w)_+|_+(?!\w)|</?[a-zA-Z][^<>]*>")
"""Emphasis and HTML tags."""
DEFINITION = re.compile(r" {0,3}\[[^\]]+\]:\s+\S+.*")


class StatsError(Exception):
    """A file cannot be read as text."""

    exit_code = 1


class RequestError(StatsError):
    """The call has to change: there is no such file."""

    exit_code = 2


class Block(NamedTuple):
    """A paragraph, a list item or a table row."""

    line: int
    text: str


class Heading(NamedTuple):
    """A heading of a Markdown file."""

    line: int
    level: int
    text: str


@dataclass(slots=True)
class Document:
    """A text, taken apart."""

    name: str
    kind: Kind
    encoding: str
    size: int
    lines: list[str]
    blocks: list[Block] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    links: int = 0
    images: int = 0
    code_blocks: int = 0
    code_lines: int = 0


def read_document(name: str, stdin: BinaryIO, kind: Kind | None) -> Document:
    """Return a file, or standard input for `-`; RequestError when it is not there."""
    path = Path(name)
    if name == "-":
        content = stdin.read(LARGEST + 1)
    elif not path.exists():
        raise RequestError(f"no such file: {name}")
    elif not path.is_file():
        raise RequestError(f"not a file: {name}")
    else:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise StatsError(f"{name} is larger than {LARGEST:,} bytes")
    encoding, text = decode(name, content)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    document = Document(name, kind or find_kind(name, lines), encoding, len(content), lines)
    if document.kind == "markdown":
        read_markdown(document)
    elif document.kind == "text":
        document.blocks = list(paragraphs(enumerate(lines, 1)))
        document.links = sum(len(LINK.findall(block.text)) for block in document.blocks)
    return document


def decode(name: str, content: bytes) -> tuple[str, str]:
    """Return encoding and text: UTF-8, UTF-16 with its mark, else CP1252, else Latin-1."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", content.decode("utf-16", "replace")
    if b"\0" in content:
        raise StatsError(f"{name} is not text: it has NUL bytes")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return encoding.removesuffix("-sig"), content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return "latin-1", content.decode("latin-1")


def find_kind(name: str, lines: list[str]) -> Kind:
    """Return what a text is, from its name or else from its first lines."""
    if known := SUFFIXES.get(Path(name).suffix.lower()):
        return known
    sample = [line for line in lines[:SAMPLE_LINES] if line.strip()]
    stamped = sum(bool(STAMP.match(line) or LEVEL.search(line[:80])) for line in sample)
    if sample and stamped * 10 >= len(sample) * 6:
        return "log"
    marked = any(HEADING.fullmatch(line) or FENCE.fullmatch(line) for line in sample)
    return "markdown" if marked else "text"


def paragraphs(lines: Iterator[tuple[int, str]] | enumerate[str]) -> Iterator[Block]:
    """Yield runs of lines that are not blank."""
    start, held = 0, list[str]()
    for number, line in lines:
        if line.strip():
            start = start if held else number
            held.append(line.strip())
        elif held:
            yield Block(start, " ".join(held))
            held = []
    if held:
        yield Block(start, " ".join(held))


def read_markdown(document: Document) -> None:
    """Fill in blocks, headings, links and code of a Markdown document."""
    prose = list[tuple[int, str]]()
    for number, line in outside_code(document):
        heading = HEADING.fullmatch(line)
        if heading:
            document.headings.append(Heading(number, len(heading[1]), visible(document, heading[2] or "")))
        elif (under := UNDERLINE.fullmatch(line)) and prose and prose[-1][1].strip():
            where, text = prose.pop()
            document.headings.append(Heading(where, 1 if under[1][0] == "=" else 2, visible(document, text)))
        elif ITEM.match(line):
            prose += [(number, ""), (number, ITEM.sub("", line, count=1))]
            continue
        elif line.lstrip().startswith("|"):
            prose += [(number, ""), (number, "" if TABLE_RULE.fullmatch(line) else line.replace("|", " "))]
            continue
        elif not DEFINITION.fullmatch(line) and not TABLE_RULE.fullmatch(line):
            prose.append((number, line.lstrip("> ") if line.lstrip().startswith(">") else line))
            continue
        prose.append((number, ""))
    document.blocks = [Block(line, visible(document, text)) for line, text in paragraphs(iter(prose))]


def outside_code(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that are neither front matter, nor comments, nor fenced code."""
    text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(document.lines))
    lines = text.split("\n")
    start = lines.index("---", 1) + 1 if lines[0] == "---" and "---" in lines[1:] else 0
    fence = ""
    for number, line in enumerate(lines[start:], start + 1):
        match = FENCE.fullmatch(line)
        if fence:
            closes = match and match[1].startswith(fence) and not match[2].strip()
            document.code_lines += not closes
            fence = "" if closes else fence
        elif match:
            fence = match[1]
            document.code_blocks += 1
            yield number, ""
        else:
            yield number, line


def visible(document: Document, text: str) -> str:
    """Return what a reader sees of inline Markdown, and count its links and images."""
    for match in LINK.finditer(text):
        if match["image"]:
            document.images += 1
        else:
            document.links += 1
    shown = LINK.sub(lambda match: "" if match["bare"] or match["image"] else match["text"], text)
    parts = shown.split("`")
    return "".join(part if place % 2 else MARKS.sub("", part) for place, part in enumerate(parts)).strip()
