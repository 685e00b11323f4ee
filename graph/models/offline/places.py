"""What belongs in a place of a command line, told from how it is written there."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from skills_agent.graph.models.offline.request import is_file_name
from skills_agent.graph.models.offline.words import vocabulary, words

Kind = Literal[
    "file", "folder", "output", "column", "number", "text", "url", "date", "choice", "literal", "value"
]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value: a positional argument, or what stands after an option."""

    text: str
    """As the skill wrote it: `FILE`, `<input.csv>`, `data.csv`."""
    kind: Kind
    stands_in: bool
    """It stands for something (`FILE`, `<path>`); otherwise it is an example or a literal."""
    optional: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()

    @property
    def extension(self) -> str:
        """The extension that the example or placeholder shows; empty when it shows none."""
        match = re.search(r"\.([A-Za-z0-9]{1,8})[>}\"']?$", self.text)
        return match[1].lower() if match else ""


_STAND_IN = re.compile(
    r"<.+>|.*\{.+\}.*|.*\$(?:\w+|[{(@*]).*|%\w+%?|[A-Z][A-Z0-9_.:/-]*(?:\.[a-z0-9]{1,5})?|.*\bpath/to\b.*"
    r"|(?:.*[-_ ])?(?:your|my|some|the)[-_ ].+|\.\.\.|…|xxx+",
)
_WORDED = re.compile(r"(?:[a-z]+[_-])?(?:file|files|path|paths|input|output|filename|directory|dir|repo)")
_LISTED = re.compile(r"[{<(]([\w.-]+(?:[,|][\w.-]+)+)[})>]|([\w.-]+(?:\|[\w.-]+)+)")

_BY_TEXT: Mapping[Kind, frozenset[str]] = {
    "output": vocabulary("output out dest destination outfile outdir"),
    "url": vocabulary("url uri link website"),
    "column": vocabulary("column columns col cols field fields metric measure dimension category"),
    "folder": vocabulary("dir directory folder repo repository project workspace root cwd pwd"),
    "number": vocabulary("n k num number count limit int integer size max min top lines days width float"),
    "date": vocabulary("date since until tag ref rev revision commit version"),
    "file": vocabulary(
        "file files path paths input inputs filename filepath infile source src document doc dataset csv tsv "
        "json jsonl xlsx xls pdf docx log logs txt md markdown yaml yml xml html image data arguments"
    ),
    "text": vocabulary("text query pattern prompt string message title keyword term topic question word"),
}
"""Words of a placeholder, most telling kind first."""
_BY_FLAG: Mapping[Kind, frozenset[str]] = {
    **_BY_TEXT,
    "column": _BY_TEXT["column"] | vocabulary("group by sum value key sort select per breakdown aggregate"),
    "date": _BY_TEXT["date"] | vocabulary("from to after before start end"),
}
"""Words of the option before it."""
_ABOUT_FILES = (
    _BY_TEXT["output"] | _BY_TEXT["folder"] | _BY_TEXT["file"] | vocabulary("in from to config template")
)


def place(text: str, *, flag: str = "", optional: bool = False, quoted: bool = False) -> Slot:
    """Classify one placeholder, example or literal; `flag` is the option that it belongs to."""
    listed = _LISTED.fullmatch(text)
    if listed:
        choices = tuple(re.split(r"[,|]", listed[1] or listed[2]))
        return Slot(text, "choice", stands_in=True, optional=optional, choices=choices)
    inner = text.strip("<>").strip()
    repeated = inner.endswith(("...", "…")) and len(inner) > len("...")
    if repeated:
        inner = inner.rstrip(".…")
    worded = not flag and bool(_WORDED.fullmatch(text))
    stands_in = repeated or worded or bool(_STAND_IN.fullmatch(text))
    named = words(inner)
    kind = _placeholder(inner, named, flag) if stands_in else _example(inner, named, flag, quoted=quoted)
    return Slot(text, kind, stands_in, optional, repeated or inner.lower() in {"files", "paths", "inputs"})


def in_synopsis(slot: Slot) -> Kind:
    """Return the kind of a bare word that argparse prints: there it is a placeholder, too."""
    return slot.kind if slot.kind != "literal" else _first(_BY_TEXT, words(slot.text)) or "value"


def is_about_files(flag_words: Sequence[str]) -> bool:
    """Return whether an option of that name takes a path."""
    return bool(_ABOUT_FILES & set(flag_words))


def _placeholder(text: str, named: Sequence[str], flag: str) -> Kind:
    by_flag = _first(_BY_FLAG, words(flag))
    if by_flag == "output" or re.fullmatch(r"\$\{?[\d@*]\}?", text):
        return "output" if by_flag == "output" else "file"
    found = _first(_BY_TEXT, named) or by_flag
    return found or ("file" if is_file_name(text) else "value")


def _example(text: str, named: Sequence[str], flag: str, *, quoted: bool) -> Kind:
    by_flag = _first(_BY_FLAG, words(flag))
    written = is_file_name(text) and {"output", "out", "result", "results"} & set(named)
    rules: Sequence[tuple[object, Kind]] = (
        (by_flag == "output" or written, "output"),
        (re.match(r"https?://", text), "url"),
        (is_file_name(text), "file"),
        (re.fullmatch(r"\d+(?:\.\d+)?", text), "number"),
        (text in {".", "./"} or text.endswith("/"), "folder"),
        (flag, by_flag or "value"),
        (quoted, "text"),
    )
    return next((kind for holds, kind in rules if holds), "literal")


def _first(table: Mapping[Kind, frozenset[str]], named: Sequence[str]) -> Kind | None:
    known = set(named)
    return next((kind for kind, each in table.items() if known & each), None)
