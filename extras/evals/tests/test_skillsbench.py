"""Tasks of SkillsBench as eval cases, by a small checkout that is written here."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.agents import write_skill
from tests.machine import needs_bwrap

AGENTS = Path(__file__).resolve().parents[3] / "benchmarks" / "agents"
IMAGE = "environment/Dockerfile"
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /root\nCOPY in /root/in\nCOPY skills /root/.claude/skills\n"
TEST = """
from pathlib import Path
def test_total():
    assert Path("/root/total.txt").read_text().strip() == "6"
"""
SOLUTION = "pip install pytest\nawk '{n += $1} END {print n}' /root/in/n.txt > /root/total.txt\n"
WriteTask = Callable[..., Path]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    pytest.importorskip("skills_agent.evals", reason="the part evals is not installed")
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.syspath_prepend(AGENTS)
    return import_module("skillsbench")


@pytest.fixture
def write_task(tmp_path: Path) -> WriteTask:
    """Return a function that writes a task, with some of its files otherwise, and returns its folder."""

    def write(name: str = "sum", **others: str) -> Path:
        task = tmp_path / "checkout" / "tasks" / name
        write_skill(task / "environment" / "skills", "adder", "Add up numbers.")
        files = {
            "task.toml": "[agent]\ntimeout_sec = 60.0\n",
            "instruction.md": "Write the total of /root/in/n.txt to `/root/total.txt`, here in /root.",
            IMAGE: DOCKERFILE,
            "environment/in/n.txt": "1\n2\n3\n",
            "tests/test.sh": "pytest --ctrf /logs/c.json /tests/test_outputs.py -rA\n",
            "tests/test_outputs.py": TEST,
            "solution/solve.sh": SOLUTION,
        }
        for path, text in {**files, **others}.items():
            (task / path).parent.mkdir(parents=True, exist_ok=True)
            (task / path).write_text(text)
        return task

    return write


@needs_bwrap
def test_a_task_passes_after_its_solution_and_fails_before(
    bench: Any, write_task: WriteTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task()
    write_task("unsolved", **{"solution/solve.sh": "true\n"})
    write_task("passes-untouched", **{"tests/test_outputs.py": "def test_all(): pass\n"})
    bench.print_passed(tmp_path / "checkout")
    assert [line for line in capsys.readouterr().out.splitlines() if line[0] != "#"] == ["sum"]


def test_a_case_has_the_paths_of_its_workspace_and_nothing_of_the_solution(
    bench: Any, write_task: WriteTask, tmp_path: Path
) -> None:
    write_task()
    (laid,) = bench.cases(tmp_path / "checkout", tmp_path / "laid")
    (case,) = bench.read_set(laid.folder / ".agent" / "evals" / "sum.json").cases
    assert case.turns == ("Write the total of in/n.txt to `total.txt`, here in ./.",)
    assert (case.skill, case.seconds, [*case.copies]) == ("adder", 60.0, ["in"])
    assert (laid.folder / ".agent" / "skills" / "adder" / "SKILL.md").is_file()
    assert not [each for name in ("solve.sh", "Dockerfile") for each in laid.folder.rglob(name)]


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        (IMAGE, DOCKERFILE + "RUN apt-get install -y python3 ffmpeg\n", "needs ffmpeg of apt-get"),
        (IMAGE, DOCKERFILE + "RUN pip install none-such==1.0\n", "pip install none-such"),
        (IMAGE, DOCKERFILE + "RUN service nginx start\n", "runs `service nginx start`"),
        (IMAGE, "FROM postgres:17\n", "is built on postgres:17"),
        (IMAGE, DOCKERFILE + "COPY ../../other /root/\n", "has no ../../other"),
        (IMAGE, DOCKERFILE + "COPY in /root/../etc/\n", "has files in /root/../etc"),
        ("tests/test_outputs.py", "import requests\n", "uses the network: `import requests`"),
        ("tests/test_outputs.py", 'open("/etc/nginx.conf")\n', "tests /etc/nginx.conf"),
        ("task.toml", '[solution.env]\nKEY = "${KEY}"\n', "needs the secret KEY"),
    ],
)
def test_what_needs_more_than_a_workspace_is_left_out(
    bench: Any, write_task: WriteTask, tmp_path: Path, path: str, text: str, why: str
) -> None:
    write_task(**{path: text})
    (laid,) = bench.cases(tmp_path / "checkout", tmp_path / "laid")
    assert (laid.folder, why in laid.reason) == (None, True)


@pytest.mark.parametrize(
    "place", ["environment/in/n.txt", "environment/in", "environment/skills", "tests/more.txt", ""]
)
def test_no_link_leads_out_of_a_task(bench: Any, write_task: WriteTask, tmp_path: Path, place: str) -> None:
    link = write_task() / place
    (tmp_path / "elsewhere").mkdir()
    if link.exists():
        link.rename(tmp_path / "elsewhere" / "it")
    (tmp_path / "elsewhere" / "it").touch()
    link.symlink_to(tmp_path / "elsewhere" / "it")
    (laid,) = bench.cases(tmp_path / "checkout", tmp_path / "laid")
    assert (laid.folder, bool(laid.reason)) == (None, True)
    assert not [each for each in (tmp_path / "laid").rglob("*") if each.name in {"it", "n.txt", "more.txt"}]


def test_a_task_is_of_one_half_and_counts_if_it_is_recorded(
    bench: Any, write_task: WriteTask, tmp_path: Path
) -> None:
    for name in ("one", "two", "three", "four"):
        write_task(name)
    place = tmp_path / "checkout"
    halves = [[*bench.cases(place, tmp_path / half, half=half)] for half in ("tuned", "reported")]
    assert all(halves)
    assert sorted(laid.name for half in halves for laid in half) == ["four", "one", "three", "two"]
    recorded = bench.cases(place, tmp_path / "all", names=["two"])
    assert [laid.name for laid in recorded if laid.folder] == ["two"]
