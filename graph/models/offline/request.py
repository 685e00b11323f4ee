"""What a request names: files, folders, quoted texts, options, numbers, dates."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from skills_agent.graph.models.offline.words import FUNCTION_WORDS, stems

TokenKind = Literal["word", "quoted", "file", "folder", "url", "flag"]

_TOKEN = re.compile(
    r"""(?P<flagged>(?<!\S)--?[A-Za-z][\w-]*=(?:"[^"\n]*"|'[^'\n]*'|\S*[^\s.,;!?)]))"""
    r"""|"(?P<double>[^"\n]+)"|“(?P<curly>[^”\n]+)”|`(?P<code>[^`\n]+)`"""
    r"""|(?<![\w'])'(?P<single>[^'\n]+)'(?!\w)|(?P<bare>[^\s"“`]+)"""
)
_FLAG = re.compile(r"(?P<name>--[A-Za-z][\w-]*|-[A-Za-z])(?:=(?P<value>.*))?")
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|mailto:)\S+", re.IGNORECASE)
_EXTENSION = re.compile(r"[^\s./\\][^/\\\n]*\.[A-Za-z][A-Za-z0-9]{0,9}|[^/\\\s]*\.(?:7z|mp[34])")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?")
_NO_FILES = frozenset({"com", "org", "net", "io", "dev", "ai", "eu", "gov", "edu"})
_PRODUCTS = frozenset({"node.js", "next.js", "vue.js", "react.js", "d3.js", "asp.net", "express.js"})
_BARE_FILES = frozenset({"Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Gemfile"})
_FOLDER_WORDS = frozenset({"folder", "directory", "dir"})
_PLACE_WORDS = _FOLDER_WORDS | {"repo", "repository", "project", "checkout", "workspace", "path"}
_HERE = re.compile(
    r"\b(?:this|the current|current|my|our) (?:git )?"
    r"(?:repo|repository|project|folder|directory|workspace|codebase|checkout)\b|\bhere\b",
    re.IGNORECASE,
)
_SAVING = frozenset(
    {"save", "write", "export", "store", "output", "dump", "put", "convert", "create", "render"}
)
_TOWARDS = frozenset({"to", "into", "as"})
_BETWEEN = frozenset({"the", "a", "file", "called", "named", "path"})
_MENTION = re.compile(r"\s*/(?P<name>[^\s/@]+)(?:@[^\s/]+)?(?:\s+|$)")

SWITCHES = frozenset(
    {"json", "csv", "markdown", "verbose", "quiet", "help", "all", "recursive", "force", "pretty", "html"}
    | {"summary", "stats", "details", "headers", "header", "strict", "fix", "check", "reverse"}
    | {"dry-run", "no-header", "version", "debug", "yes", "raw", "compact", "full", "overview", "yaml"}
)
"""Flags that hardly ever take a value."""


class Token(NamedTuple):
    """One word, quoted text or path of a request."""

    kind: TokenKind
    text: str


class Flag(NamedTuple):
    """An option that the request spells out."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Request:
    """A request, read."""

    text: str
    skill: str | None
    """The skill of `/name arguments`."""
    files: tuple[str, ...]
    """Files to read, in their order."""
    outputs: tuple[str, ...]
    """Files to write."""
    folders: tuple[str, ...]
    urls: tuple[str, ...]
    quoted: tuple[str, ...]
    """Quoted texts that are no paths."""
    flags: tuple[Flag, ...]
    stems: frozenset[str]
    """Of its words, without paths and flags."""
    prose: str
    """Its text without paths and flags; quoted texts keep their quotes."""


def read_request(text: str, skills: Iterable[str] = ()) -> Request:
    """Read a request. `/name` at its start is taken off when it names one of `skills`."""
    mention = _MENTION.match(text)
    skill = mention["name"] if mention and mention["name"] in set(skills) else None
    if mention and skill:
        text = text[mention.end() :]
    tokens = _tokens(text)
    flags, tokens = _flags(tokens)
    outputs = _outputs(tokens)
    files = [token.text for token in tokens if token.kind == "file" and token.text not in outputs]
    folders = [token.text for token in tokens if token.kind == "folder"]
    if not folders and _HERE.search(text):
        folders = ["."]
    prose = " ".join(
        f'"{token.text}"' if token.kind == "quoted" else token.text
        for token in tokens
        if token.kind in {"word", "quoted"}
    )
    return Request(
        text=text.strip(),
        skill=skill,
        files=tuple(dict.fromkeys(files)),
        outputs=tuple(dict.fromkeys(outputs)),
        folders=tuple(dict.fromkeys(folders)),
        urls=tuple(token.text for token in tokens if token.kind == "url"),
        quoted=tuple(token.text for token in tokens if token.kind == "quoted"),
        flags=tuple(flags),
        stems=stems(prose),
        prose=prose,
    )


def is_file_name(text: str) -> bool:
    """Return whether a text looks like the path of a file: it ends in an extension."""
    name = text.replace("\\", "/").rsplit("/", 1)[-1]
    if name in _BARE_FILES:
        return True
    if not _EXTENSION.fullmatch(name) or _INITIALS.fullmatch(text) or name.lower() in _PRODUCTS:
        return False
    return not ("/" not in text and name.rsplit(".", 1)[-1].lower() in _NO_FILES)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        if match["flagged"]:
            tokens.append(Token("flag", match["flagged"]))
            continue
        quoted = match["double"] or match["curly"] or match["code"] or match["single"]
        token = _quoted(quoted.strip()) if quoted else _bare(match["bare"], tokens)
        if token:
            tokens.append(token)
    return _with_folders(tokens)


def _quoted(text: str) -> Token:
    if _URL.fullmatch(text):
        return Token("url", text)
    if is_file_name(text):
        return Token("file", text)
    if text.startswith(("./", "../", "~/", "/")) or text.endswith("/"):
        return Token("folder", text)
    return Token("flag", text) if _FLAG.fullmatch(text) else Token("quoted", text)


def _bare(text: str, before: Sequence[Token]) -> Token | None:
    if text in {".", ".."} and before:
        return Token("folder", text)
    if _URL.match(text.lstrip("(<[")):
        return Token("url", text.strip("()<>[],;!?").rstrip("."))
    text = text.lstrip("([{<*").rstrip(",;:!?)]}>*").removesuffix("'s")
    if _FLAG.fullmatch(text):
        return Token("flag", text)
    path = text if text in {"./", "../", ".."} else text.rstrip(".")
    return Token(_path_kind(path), path) if path else None


def _path_kind(path: str) -> TokenKind:
    if is_file_name(path):
        return "file"
    rooted = path.startswith(("./", "../", "~/")) or (path.startswith("/") and path.count("/") > 1)
    return "folder" if rooted or (path.endswith("/") and len(path) > 1) else "word"


def _with_folders(tokens: list[Token]) -> list[Token]:
    """Take `src` for a folder in `the src folder`, and `a/b` in `the repository a/b`."""
    found = list(tokens)
    for index, token in enumerate(tokens):
        if token.kind not in {"word", "quoted"}:
            continue
        before = tokens[index - 1].text.lower() if index else ""
        after = tokens[index + 1].text.lower() if index + 1 < len(tokens) else ""
        named = before in _PLACE_WORDS and ("/" in token.text or token.kind == "quoted")
        called = before in {"named", "called", "at"} and any(
            each.text.lower() in _PLACE_WORDS for each in tokens[max(0, index - 3) : index]
        )
        plain = token.text.lower() not in FUNCTION_WORDS | {"current", "working", "whole", "same"}
        if named or called or (after in _FOLDER_WORDS and plain and before in {"the", "in", "my", "our"}):
            found[index] = Token("folder", token.text)
    return found


def _flags(tokens: list[Token]) -> tuple[list[Flag], list[Token]]:
    """Split the options off; one without `=` takes the next word unless it is hardly ever given one."""
    flags: list[Flag] = []
    rest: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        match = _FLAG.fullmatch(token.text) if token.kind == "flag" else None
        index += 1
        if match is None:
            rest.append(token)
            continue
        value = match["value"].strip("\"'") if match["value"] is not None else None
        follows = tokens[index] if index < len(tokens) else None
        if value is None and follows and _is_value(match["name"], follows):
            value = follows.text
            index += 1
        flags.append(Flag(match["name"], value))
    return flags, rest


def _is_value(flag: str, token: Token) -> bool:
    if flag.lstrip("-") in SWITCHES or token.kind == "flag":
        return False
    return token.kind != "word" or token.text.lower() not in FUNCTION_WORDS


def _outputs(tokens: Sequence[Token]) -> list[str]:
    saving = False
    outputs = []
    for index, token in enumerate(tokens):
        saving = saving or (token.kind == "word" and token.text.lower() in _SAVING)
        before = [each.text.lower() for each in tokens[max(0, index - 4) : index]]
        while before and before[-1] in _BETWEEN:
            before.pop()
        if token.kind == "file" and saving and before and before[-1] in _TOWARDS:
            outputs.append(token.text)
    return outputs
