"""Read frontmatter that is not valid YAML: each key on its own, and as written where it stays invalid.

What real files get wrong (0.5 % of 4,419): colons in unquoted values, also over wrapped lines or with
quotes inside; values that begin with `@`, a backtick, `[`, `{`, `*` or `%`; tabs; text after a closing
quote. A fault in one key must not cost the others.
"""

import re
from textwrap import dedent
from typing import Final, NamedTuple

import yaml

from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.format.yaml_result import Value, YamlText
from skills_agent.skills.format.yaml_text import read_yaml

_KEY = re.compile(r"""(?P<key>[A-Za-z_][\w.-]*|"[^"\n]+"|'[^'\n]+')[ \t]*:(?=[ \t]|$)[ \t]*(?P<rest>.*)""")
_LEADING_TABS = re.compile(r"(?m)^([ ]*)(\t+)")
_CLOSED_WITHIN = re.compile(r"""(["'])(?:(?!\1).)*[^\s\\]\1[\s,;:.](?=.*\1)""", re.DOTALL)
"""A text whose first word or words are quoted, and others after them: its quotes are its own."""
_MAX_NESTING: Final = 3
_LIST_MARK: Final = "- "
_REPORTS: Final = frozenset({"yaml-repaired", "yaml-line-dropped"})


class Chunk(NamedTuple):
    """A key and the lines up to the next key of the same level."""

    key: str
    first: str
    """What stands on the line of the key, after the colon."""
    rest: tuple[str, ...]
    """The lines below, as written."""
    line: int
    """0-based line in the text."""
    text: str


class Chunks(NamedTuple):
    """A text cut at its keys, and the lines before the first key that say something."""

    found: tuple[Chunk, ...]
    dropped: tuple[int, ...]


def repair(text: str, first_line: int, cause: str, depth: int = 0) -> YamlText:
    """Read every key of an invalid text for itself, reporting each that had to be repaired.

    Raises:
        FrontmatterError: no line of it is a key, or a key that is valid is refused.
    """
    reading = YamlText({}, {}, [])
    fields: dict[str, Value] = {}
    chunks = chunks_of(text)
    if not chunks.found:  # every line may be indented, by tabs even
        chunks = chunks_of(dedent(_straight(text)))
    for dropped in chunks.dropped:
        finding = Finding("yaml-line-dropped", "The line belongs to no key.", first_line + dropped)
        reading.findings.append(finding)
    for chunk in chunks.found:
        line = first_line + chunk.line
        if chunk.key in fields:
            message = f"`{chunk.key}` stands here more than once; the last one counts."
            reading.findings.append(Finding("yaml-duplicate-key", message, line))
        reading.lines[chunk.key] = line
        fields[chunk.key] = _value_of(chunk, line, cause, depth, reading.findings)
    if not fields:
        raise FrontmatterError(Finding("yaml-invalid", f"The YAML is invalid: {cause}.", first_line))
    if not any(
        found.code in _REPORTS for found in reading.findings
    ):  # each key is valid, all together are not
        message = f"The YAML is invalid ({cause}); each key was read for itself."
        reading.findings.append(Finding("yaml-repaired", message, first_line))
    return reading._replace(value=fields)


def chunks_of(text: str) -> Chunks:
    """Cut a text at the lines that start with `key:`."""
    lines = text.split("\n")
    starts = [(number, match) for number, line in enumerate(lines) if (match := _KEY.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)][: len(starts)]
    found = tuple(
        Chunk(
            key=match["key"].strip("\"'"),
            first=match["rest"],
            rest=tuple(lines[number + 1 : end]),
            line=number,
            text="\n".join(lines[number:end]),
        )
        for (number, match), end in zip(starts, ends, strict=True)
    )
    before = lines[: starts[0][0]] if starts else []
    dropped = tuple(
        number for number, line in enumerate(before) if line.strip() and not line.lstrip().startswith("#")
    )
    return Chunks(found, dropped)


def _value_of(chunk: Chunk, line: int, cause: str, depth: int, findings: list[Finding]) -> Value:
    straight = _straight(chunk.text)
    try:
        reading = read_yaml(straight, line, depth)
    except yaml.YAMLError as error:
        cause = cause_of(error)
    else:
        if isinstance(reading.value, dict) and list(reading.value) == [chunk.key]:
            findings += reading.findings
            if straight != chunk.text:
                findings.append(_repaired(chunk.key, "tabs where YAML wants blanks", line))
            return reading.value[chunk.key]
    if not chunk.first.strip() and depth < _MAX_NESTING:
        inner = _nested(straight.split("\n")[1:], line + 1, cause, depth, findings)
        if inner is not None:
            return inner
    findings.append(_repaired(chunk.key, cause, line))
    return raw_text(chunk)


def _straight(text: str) -> str:
    """Return a text with blanks for the tabs that its lines begin with."""
    return _LEADING_TABS.sub(lambda tabs: tabs[1] + "  " * len(tabs[2]), text)


def _nested(
    lines: list[str], first_line: int, cause: str, depth: int, findings: list[Finding]
) -> dict[str, Value] | list[Value] | None:
    """Read the lines below a key as a mapping or a list of texts, if they look like one."""
    written = [line for line in lines if line.strip()]
    if not written:
        return None
    indent = min(len(line) - len(line.lstrip()) for line in written)
    dedented = [line[indent:] for line in lines]
    first = next(line for line in dedented if line)
    if _KEY.match(first):
        inner = repair("\n".join(dedented), first_line, cause, depth + 1)
        findings += inner.findings
        return inner.value if isinstance(inner.value, dict) else None
    if all(line.startswith(_LIST_MARK) for line in dedented if line.strip()):
        findings.append(Finding("yaml-repaired", f"A list is not valid YAML ({cause}).", first_line))
        return [_unquoted(line.removeprefix(_LIST_MARK).strip()) for line in dedented if line.strip()]
    return None


def _repaired(key: str, cause: str, line: int) -> Finding:
    message = f"`{key}` is not valid YAML ({cause}); it was read as the text that is written."
    return Finding("yaml-repaired", message, line)


def raw_text(chunk: Chunk) -> str:
    """Return the value of a key as written, wrapped lines joined and quotes around the whole taken off."""
    header = chunk.first.strip()
    if header in {"|", ">", "|-", ">-", "|+", ">+"}:
        header = ""
    written = (header, *(line.strip() for line in chunk.rest if not line.lstrip().startswith("#")))
    return _unquoted(" ".join(line for line in written if line))


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in {'"', "'"}:
        return text
    if _CLOSED_WITHIN.match(text):
        return text
    if len(text) > 1 and text.endswith(quote):
        return _unescaped(text[1:-1], quote)
    return _unescaped(text[1:], quote) if text.count(quote) == 1 else text


def _unescaped(text: str, quote: str) -> str:
    return text.replace("''", "'") if quote == "'" else text.replace('\\"', '"').replace("\\\\", "\\")


def cause_of(error: yaml.YAMLError) -> str:
    """Say in a few words what YAML did not like."""
    return str(getattr(error, "problem", None) or "unreadable")
