"""Find files of eval cases, and read them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from skills_agent.evals.cases.case import EvalSet
from skills_agent.evals.cases.case_files import read_case_file
from skills_agent.evals.cases.case_form import VERSION, FileOfCases
from skills_agent.evals.cases.errors import EvalFileError, NoEvalsError
from skills_agent.evals.cases.eval_place import EVALS_FOLDER, SKILL_FILE, EvalPlace, place_of
from skills_agent.evals.cases.evals_json import read_evals
from skills_agent.evals.cases.identity import unique
from skills_agent.evals.cases.yaml_lines import YamlDocument, YamlFault, read_yaml_lines
from skills_agent.skills.confined import ConfinedError, is_beneath, read_beneath
from skills_agent.skills.library.contents import LEFT_OUT
from skills_agent.skills.text import normalize_line_ends
from skills_agent.skills.trees import walk
from skills_agent.skills.visible import visible_line

MAX_BYTES: Final = 10 << 20
"""Of one file of cases."""
MAX_FOLDERS: Final = 20_000
"""That are looked at for skills."""
MAX_DEPTH: Final = 6
"""Of a skill's folder beneath the one that is looked through: 99.4 % of public skills are there."""
WORKSPACE_FOLDER: Final = f".agent/{EVALS_FOLDER}"
WORKSPACE_SKILLS: Final = ".agent/skills"
PLUGIN_FILE: Final = ".claude-plugin/plugin.json"
_YAML: Final = frozenset({".yaml", ".yml"})
_SUFFIXES: Final = _YAML | {".json", ".jsonl"}
"""Of files that are looked at: of one that is not read, it is said."""
PROMPT_FILE: Final = "prompt.md"
"""A case of `claude plugin eval` is a folder with this; it is not read, and that is said, too."""
_KEYS: Final = FileOfCases.__struct_fields__


def read_set(path: Path, about: str = "") -> EvalSet:
    """Read one file of eval cases; `about` is its skill where nothing says so.

    Raises EvalFileError; NoEvalsError where it is a file of something else.
    """
    place = place_of(path)
    try:
        read = _read(place._replace(skill=place.skill or about))
    except EvalFileError as error:
        # What strangers wrote is quoted in it, and a terminal shows it.
        raise type(error)(visible_line(error.file), visible_line(error.reason)) from error
    return msgspec.structs.replace(read, skipped=tuple(map(visible_line, read.skipped)))


def _read(place: EvalPlace) -> EvalSet:
    if place.file.suffix.lower() not in {".json", *_YAML}:
        reason = "eval cases are read from JSON (`evals.json`, lists of requests) and YAML in our own form"
        raise NoEvalsError(str(place.file), reason)
    text = _text_of(place.file)
    if place.file.suffix.lower() in _YAML:
        return _read_yaml(place, text)
    try:
        root = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        reason = "it nests too deep" if isinstance(error, RecursionError) else f"it is no JSON ({error})"
        raise EvalFileError(str(place.file), reason) from error
    if isinstance(root, Mapping) and root.get("version") == VERSION and "evals" not in root:
        return read_case_file(place, YamlDocument(root, {}))
    return read_evals(place, root)


def find_files(place: Path) -> tuple[Path, ...]:
    """Return the files of eval cases at a place, sorted.

    That is a file itself; of the folder of a skill or a plugin those in `evals/`; of a workspace those in
    `.agent/evals/`; and those of every skill beneath. Raises EvalFileError where there is no such place.
    """
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise EvalFileError(str(place), "there is no such file or folder")
    if (place / SKILL_FILE).is_file():
        found = [*_files_in(place / EVALS_FOLDER)]
    elif place.name == EVALS_FOLDER:
        found = [*_files_in(place)]
    else:
        found = [*_files_in(place / WORKSPACE_FOLDER)]
        if (place / PLUGIN_FILE).is_file():
            found += _files_in(place / EVALS_FOLDER)
        for root in (place / WORKSPACE_SKILLS, place):
            found += (file for skill in _skills_beneath(root) for file in _files_in(skill / EVALS_FOLDER))
    return tuple(dict.fromkeys(found))


def read_all(paths: Iterable[Path]) -> tuple[EvalSet, ...]:
    """Read every file of eval cases at some places, each once, with ids that are unique among all.

    In a folder, a file of something else is passed over, and said. Raises EvalFileError for a file that is
    named or seems to be one of eval cases, and cannot be read.
    """
    sets: list[EvalSet] = []
    seen: set[str] = set()
    ids: set[str] = set()
    for path in paths:
        for file in find_files(path):
            if (real := os.path.realpath(file)) in seen:
                continue
            seen.add(real)
            try:
                read = read_set(file)
            except NoEvalsError as error:
                if file == path:
                    raise
                read = EvalSet(file=str(file), skipped=(str(error),))
            sets.append(msgspec.structs.replace(read, cases=tuple(unique(read.cases, ids))))
    return tuple(sets)


def _text_of(file: Path) -> str:
    try:
        real = file.resolve()
        raw = read_beneath(real.parent, real.name, MAX_BYTES + 1)  # which waits for no FIFO
    except ConfinedError as error:
        raise EvalFileError(str(file), f"it {error.reason}") from error
    except OSError as error:
        raise EvalFileError(str(file), error.strerror or "it cannot be opened") from error
    if len(raw) > MAX_BYTES:
        raise EvalFileError(str(file), f"it is larger than {MAX_BYTES >> 20} MB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvalFileError(
            str(file), f"it is not UTF-8 text ({error.reason} at byte {error.start:,})"
        ) from error


def _read_yaml(place: EvalPlace, text: str) -> EvalSet:
    try:
        document = read_yaml_lines(normalize_line_ends(text))
    except YamlFault as fault:
        raise EvalFileError(f"{place.file}:{fault.line}", str(fault)) from fault
    except RecursionError as error:
        raise EvalFileError(str(place.file), "it nests too deep") from error
    if document.value is None:
        raise EvalFileError(str(place.file), "it is empty")
    if not isinstance(document.value, dict) or not any(map(_is_like_a_key, document.value)):
        raise NoEvalsError(str(place.file), f"it has none of the keys of eval cases ({', '.join(_KEYS)})")
    return read_case_file(place, document)


def _is_like_a_key(written: object) -> bool:
    """Return whether a key of the top is ours, or one of ours with a slip of the pen."""
    from difflib import get_close_matches  # noqa: PLC0415 - only few files need it

    return written in _KEYS or bool(get_close_matches(str(written).casefold(), _KEYS, n=1, cutoff=0.7))


def _files_in(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = entry.name
        is_known = not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES
        if is_known and entry.is_file() and is_beneath(folder, folder / name):
            yield folder / name
        prompt = folder / name / PROMPT_FILE
        if not name.startswith(".") and prompt.is_file() and is_beneath(folder, prompt):
            yield prompt


def _skills_beneath(root: Path) -> Iterator[Path]:
    """Yield the folders of skills beneath a folder, hidden ones and those of other people's code left out."""
    if not root.is_dir():
        return
    depth = len(root.parts)
    for number, (place, folders, files) in enumerate(walk(root)):
        if number >= MAX_FOLDERS:
            return
        folders[:] = sorted(
            name for name in folders if name not in LEFT_OUT | {"node_modules"} and not name.startswith(".")
        )
        if SKILL_FILE in files:
            yield Path(place)
        # Clients share skills by links: a linked skill counts, what is beneath a linked folder does not.
        linked = (Path(place, name) for name in folders if Path(place, name).is_symlink())
        yield from (each for each in linked if (each / SKILL_FILE).is_file())
        if len(Path(place).parts) - depth >= MAX_DEPTH:
            folders.clear()
