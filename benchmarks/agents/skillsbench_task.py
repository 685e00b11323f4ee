"""Read a task of SkillsBench (https://github.com/benchflow-ai/skillsbench), and say what keeps it from here.

A task is a folder with `task.toml`, `instruction.md`, `environment/` (Dockerfile, its files, `skills/`),
`tests/` (test.sh, which starts pytest) and `solution/` (solve.sh). Without Docker, it can be had where its
container is a plain Python with copied files and packages of pip.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from skills_agent.skills.confined import is_beneath

NEEDED: Final = (
    *("task.toml", "instruction.md", "environment/Dockerfile", "environment/skills"),
    *("tests/test.sh", "solution/solve.sh"),
)
PLAIN: Final = re.compile(
    r"(python3.*|lib(?!reoffice).*|gcc|g\+\+|gfortran|make|cmake|build-essential|pkg-config|git|curl|wget|ca-certificates"
    r"|bash|vim|nano|zip|unzip|tree|patch|procps)"
)
"""Packages of apt that a task does not use itself: Python, what builds and fetches packages, editors."""
BASE: Final = re.compile(r"(--platform=\S+ )?(docker\.io/)?(library/)?(python|ubuntu|debian):\S+")
SETS_UP: Final = ("apt-get", "apt", "rm", "ls", "echo", "true", "chmod", "mkdir")
IGNORED: Final = ("ENV", "CMD", "ARG", "LABEL", "SHELL", "USER", "EXPOSE")
TOP: Final = ("/root", "/app", "/data", "/output", "/outputs", "/workspace")
"""Folders of containers that stand for the workspace, or for a folder in it."""
NETWORK: Final = re.compile(
    r"^\s*(import|from) (requests|httpx|aiohttp|openai|anthropic|modal|huggingface_hub)\b|urlopen\("
    r"|^\s*(curl|wget|git clone|npm|npx) ",
    re.MULTILINE,
)
ELSEWHERE: Final = re.compile(r"""["'](/(?:usr|opt|etc|home|var|services)/[\w/.-]*)""")
TESTED: Final = re.compile(r"\bpytest\b[^\n]*\s/tests/(\w+\.py)")
NOT_NEEDED: Final = frozenset(
    {"pip", "setuptools", "wheel", "uv", "pytest", "pytest-json-ctrf", "pytest-json-report"}
)


class LeftOutError(Exception):
    """A task cannot be had here; its text says why, after the name of the task."""


@dataclass
class Task:
    """What a task is."""

    folder: Path
    workdir: str = "/root"
    """The container's folder that is the workspace."""
    seconds: float = 300.0
    """That an agent has."""
    test: str = ""
    """The file in `tests/` that pytest is started with."""
    files: dict[str, Path] = field(default_factory=dict)
    """What lies in the container, by its absolute path there."""
    skill_places: list[str] = field(default_factory=list)
    """Where its skills lie there, for agents of several kinds."""
    packages: list[str] = field(default_factory=list)
    """Of pip, by names alone: theirs are pinned to releases that exclude each other."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def skills(self) -> Path:
        return self.folder / "environment" / "skills"

    @property
    def places(self) -> dict[str, str]:
        """Return where the container's folders are in the workspace."""
        tops = {f"/{PurePosixPath(path).parts[1]}" for path in self.files} | {*TOP}
        return {**{top: top[1:] for top in sorted(tops)}, self.workdir: "."}

    def place(self, path: str) -> str:
        """Return where a path of the container is in the workspace."""
        inside = PurePosixPath(path)
        return str(inside.relative_to(self.workdir if inside.is_relative_to(self.workdir) else "/"))


def read_task(folder: Path) -> Task:
    """Read one task. Raises LeftOutError, and OSError and ValueError for a folder of something else."""
    task = Task(folder)
    for name in NEEDED:
        if not (folder / name).exists() or not is_beneath(folder, folder / name):
            raise LeftOutError(f"has no {name} in its folder")
    _settings(task, tomllib.loads((folder / "task.toml").read_text(encoding="utf-8")))
    lines = list(_lines((folder / "environment" / "Dockerfile").read_text(encoding="utf-8")))
    task.workdir = next((rest for word, rest in reversed(lines) if word == "WORKDIR"), "/root").rstrip("/")
    if not re.fullmatch(r"(/[\w.-]+)+", task.workdir):
        raise LeftOutError(f"works in {task.workdir or '/'}")
    for word, rest in lines:
        if word == "FROM" and not BASE.fullmatch(rest):
            raise LeftOutError(f"is built on {rest}")
        if word == "RUN":
            _run(task, rest)
        elif word == "COPY":
            _copy(task, rest)
        elif word not in {*IGNORED, "FROM", "WORKDIR"}:
            raise LeftOutError(f"has {word} in its Dockerfile")
    _scripts(task)
    task.packages = sorted({name.lower() for name in task.packages} - NOT_NEEDED)
    return task


def _settings(task: Task, settings: dict[str, Any]) -> None:
    task.seconds = float(settings.get("agent", {}).get("timeout_sec", task.seconds))
    if settings.get("environment", {}).get("gpus"):
        raise LeftOutError("needs a GPU")
    for part in ("environment", "verifier", "solution"):
        for name, value in settings.get(part, {}).get("env", {}).items():
            if "${" in str(value):
                raise LeftOutError(f"needs the secret {name}")


def _lines(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile: their first word, and the rest."""
    if "<<" in dockerfile:
        raise LeftOutError("runs a program in its Dockerfile")
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", dockerfile))
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), " ".join(rest.split())


def _run(task: Task, command: str) -> None:
    """Take from a RUN what it installs. Raises LeftOutError for more than that, and for no plain package."""
    for part in re.split(r"&&|\|\||;", command):
        words = shlex.split(part)
        if installed := _pip(part):
            task.packages += installed
        elif words[:2] in (["apt-get", "install"], ["apt", "install"]) or "install" in words[:4]:
            for name in (word for word in words[words.index("install") + 1 :] if word[0] != "-"):
                if words[0] not in {"apt-get", "apt"} or not PLAIN.fullmatch(name):
                    raise LeftOutError(f"needs {name} of {words[0]}")
        elif words and words[0] not in SETS_UP and words[:3] != ["python3", "-m", "venv"]:
            raise LeftOutError(f"runs `{' '.join(words)[:40]}` in its Dockerfile")


def _pip(command: str) -> list[str]:
    """Return the names of packages that a command of a shell installs by pip or uv."""
    found = re.search(r"\b(?:pip3?|uv) (?:install|add)\b([^|&;\n]*)", command)
    words = shlex.split(found[1], comments=True) if found else []
    named = [re.split(r"[=<>~!;\[ ]", word)[0] for word in words if word[0] != "-" and "/" not in word]
    return [name for name in named if re.fullmatch(r"\w[\w.-]*", name)]


def _copy(task: Task, rest: str) -> None:
    """Find what a COPY lays, but for skills: an agent is given those in its own way."""
    *sources, target = _list_form(rest) if rest.startswith("[") else shlex.split(rest)
    if any(source.startswith("--") for source in sources):
        raise LeftOutError("copies from another image")
    to, top = PurePosixPath(task.workdir, target), task.folder / "environment"
    for source in sources:
        if re.match(r"(\./)?skill[s\[]", source):
            task.skill_places.append(str(to))
            continue
        found = sorted(top.glob(source.lstrip("./") or "*"))
        if at_top := str(to) == task.workdir:  # of a folder what is in it is copied
            found = [it for each in found for it in (each.iterdir() if each.is_dir() else [each])]
        if not found or not all(is_beneath(task.folder, each) for each in found):
            raise LeftOutError(f"has no {source} in its folder")
        if not str(to).startswith((task.workdir, *TOP)) or ".." in to.parts:
            raise LeftOutError(f"has files in {to}")
        is_folder = target.endswith("/") or len(sources) + len(found) > 2 or str(to) in TOP
        for each in found:
            task.files[str(to / each.name if at_top or (is_folder and each.is_file()) else to)] = each


def _list_form(text: str) -> list[str]:
    """Return the words of the list form of an instruction."""
    return re.findall(r'"([^"]*)"', text)


def _scripts(task: Task) -> None:
    """Look into what tests it, what solves it, and what its skills bring."""
    test_sh = (task.folder / "tests" / "test.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    tests = {*TESTED.findall(test_sh)}
    if len(tests) != 1 or not (task.folder / "tests" / min(tests)).is_file():
        raise LeftOutError("is not tested by one file of pytest")
    task.test = min(tests)
    solution = (task.folder / "solution" / "solve.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    for line in f"{test_sh}\n{solution}".splitlines():
        task.packages += [*_pip(line), *re.findall(r"--with[ =]([\w.-]+)", line)]
    for part in ("tests", "solution", "environment/skills"):
        for file in sorted((task.folder / part).rglob("*")):
            if file.suffix not in {".py", ".sh"} or file.name == "test.sh":
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
            if found := NETWORK.search(text):
                raise LeftOutError(f"uses the network: `{found[0].strip()}` in {file.name}")
            if part == "tests" and (other := ELSEWHERE.search(text)):
                raise LeftOutError(f"tests {other[1]}, which is not in the workspace")
