"""What agents with the same skills send for the same tasks, in tokens that are paid for.

    python benchmarks/prompt_bill.py

Seven tasks of 54 model calls, with 30 skills and with 105: this project's graph, `create_agent` with the
catalog in its system prompt and tools to load a skill, read a file and run a command, and
`create_deep_agent(skills=...)`. A server on loopback plays the replies and keeps the requests. A token is
four characters. What a request has in common with the beginning of an earlier one is in the provider's
cache, and costs a tenth. Exits with 1 where an aim is missed.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from deepagents import create_deep_agent
from deepagents.backends import LocalShellBackend
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from skills_agent.graph import Settings, build_graph
from skills_agent.skills.sources import DirectorySource

CHARACTERS_PER_TOKEN = 4
CACHED = 0.1
SIZES = {30: 1.2, 105: 1.0}
"""How many skills, and the most that ours may cost as a multiple of `create_agent`'s."""
TASKS = (
    ("A",),
    ("LRA",),
    ("LRSSA",),
    ("RRRA", "RRA"),
    ("LRRRSSRSA", "A"),
    ("LRRSSA", "RRSSRRA"),
    ("LSA", "RA", "LSSA", "RSA", "RRA"),
)
"""The turns of each: what the model does, call by call. L loads the next skill, R reads a file, S runs a
script, A answers."""
LINES = "".join(
    f"Line {number}: what was sold in the north, the south and the west.\n" for number in range(30)
)
SCRIPT = "import sys\nfor number in range(12): print('row', number, 'total', number * int(sys.argv[1]))\n"
BODY = "Read the file, run `python scripts/total.py`, and tell the total. Name each step.\n" * 20
FAILED = ("Not run", "not loaded", "No such file", "Traceback")
"""What tells that a call did not do its work."""
ASKED = "What was sold in the north this week, and what is the total?"

Step = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


class Kind(NamedTuple):
    """One kind of agent."""

    name: str
    make: Callable[[Path, ChatOpenAI], Any]
    """Returns a compiled agent, given the folder with `skills/`."""
    load: Callable[[str], Step]
    read: Callable[[int], Step]
    run: Callable[[str, int], Step]
    """Takes the name of a skill, and a number: no call is made twice."""

    def steps(self, task: Sequence[str], skills: Iterator[str]) -> Iterator[Step | None]:
        """Yield what the model does in a task; None for an answer."""
        name = ""
        for number, action in enumerate("".join(task)):
            name = next(skills) if action == "L" else name
            if action == "L":
                yield self.load(name)
            elif action == "S":
                yield self.run(name, number)
            else:
                yield self.read(number) if action == "R" else None


def _ours(place: Path, model: ChatOpenAI) -> Any:
    settings = Settings(workspace=place, home=place / "home", require_approval_for=frozenset(), audit="off")
    sources = [DirectorySource(place / "skills", "project")]
    return build_graph(settings, model=model, sources=sources).compile(checkpointer=InMemorySaver())


def _create_agent(place: Path, model: ChatOpenAI) -> Any:
    def load_skill(name: str) -> str:
        """Load the instructions of a skill."""
        return (place / "skills" / name / "SKILL.md").read_text().split("---\n")[2]

    def read_file(path: str) -> str:
        """Read a file of the workspace."""
        return (place / path).read_text()

    def run_command(command: str) -> str:
        """Run a command in the workspace."""
        return subprocess.run(
            command, check=False, shell=True, cwd=place, capture_output=True, text=True
        ).stdout

    lines = [
        f"- {folder.name}: {(folder / 'SKILL.md').read_text().split('description: ')[1].splitlines()[0]}"
        for folder in sorted((place / "skills").iterdir())
    ]
    text = (
        "You are a helpful assistant. When a skill fits the task, load it with load_skill first.\n\nSkills:\n"
    )
    return create_agent(
        model,
        [load_skill, read_file, run_command],
        system_prompt=text + "\n".join(lines),
        checkpointer=InMemorySaver(),
    )


def _deepagents(place: Path, model: ChatOpenAI) -> Any:
    backend = LocalShellBackend(root_dir=place, virtual_mode=True)
    return create_deep_agent(model, backend=backend, skills=["/skills/"], checkpointer=InMemorySaver())


def _command(name: str, number: int) -> str:
    return f"python3 skills/{name}/scripts/total.py {number}"


KINDS = (
    Kind(
        "skills-agent",
        _ours,
        lambda name: ("load_skill", {"name": name}),
        lambda number: ("read_file", {"path": f"sales-{number}.txt"}),
        lambda name, number: (
            "run_script",
            {"skill": name, "path": "scripts/total.py", "args": [str(number)]},
        ),
    ),
    Kind(
        "create_agent",
        _create_agent,
        lambda name: ("load_skill", {"name": name}),
        lambda number: ("read_file", {"path": f"sales-{number}.txt"}),
        lambda name, number: ("run_command", {"command": _command(name, number)}),
    ),
    Kind(
        "deepagents",
        _deepagents,
        lambda name: ("read_file", {"file_path": f"/skills/{name}/SKILL.md"}),
        lambda number: ("read_file", {"file_path": f"/sales-{number}.txt"}),
        lambda name, number: ("execute", {"command": _command(name, number)}),
    ),
)


class Player(ThreadingHTTPServer):
    """Speaks OpenAI's protocol: plays replies, and keeps requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[Step | None] = []
        self.requests: list[str] = []

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Keep a request, as a provider reads it (tools first), and return the next reply."""
        self.requests.append(json.dumps(body.get("tools", [])) + json.dumps(body["messages"]))
        step, number = self.replies.pop(0), len(self.requests)
        if step is None:
            return {"role": "assistant", "content": f"It is {17 * number}."}
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        call = {"id": f"call{number:05}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Player)
        message = self.server.answer(body)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        raw = json.dumps({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_request(self, code: Any = "", size: Any = "") -> None:
        """Say nothing."""


@contextmanager
def player() -> Iterator[Player]:
    """Yield a server that answers."""
    with Player() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class Bill(NamedTuple):
    """What an agent sent for all tasks, in tokens."""

    calls: int
    first: float
    """Of the first request."""
    sent: float
    cached: float

    @property
    def paid(self) -> float:
        """Return what is paid for."""
        return self.sent - (1 - CACHED) * self.cached


def bill_of(requests: Sequence[str]) -> Bill:
    """Return the bill of requests, in the order in which they were made."""
    cached = sum(
        max((_in_common(text, each) for each in requests[:at]), default=0) for at, text in enumerate(requests)
    )
    sent = sum(map(len, requests))
    tokens = (each / CHARACTERS_PER_TOKEN for each in (len(requests[0]), sent, cached))
    return Bill(len(requests), *tokens)


def _in_common(one: str, other: str) -> int:
    return len(os.path.commonprefix([one, other]))  # noqa: RUF071 - these are no paths


def write_place(place: Path, skills: int) -> None:
    """Write a workspace with a file and some skills."""
    for number in range(max(map(len, map("".join, TASKS)))):
        (place / f"sales-{number}.txt").write_text(f"Week {number}.\n{LINES}")
    for number in range(skills):
        folder = place / "skills" / f"report-kind-{number:03}"
        (folder / "scripts").mkdir(parents=True)
        (folder / "scripts" / "total.py").write_text(SCRIPT)
        description = (
            f"Writes the report of kind {number} from tables of sales, with totals for each region and week, "
            "a chart, and a note on what changed since the last one. Handles missing values and currencies. "
            f"Use when the user asks for report {number}, totals of kind {number}, or a sum by region."
        )
        head = f"---\nname: {folder.name}\ndescription: {description}\nlicense: MIT\n---\n"
        (folder / "SKILL.md").write_text(head + BODY)


def requests_of(kind: Kind, skills: int) -> list[str]:
    """Return all requests that an agent makes for the tasks, each a thread of its own."""
    with TemporaryDirectory() as folder, player() as server:
        place = Path(folder)
        write_place(place, skills)
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        agent = kind.make(place, ChatOpenAI(model="m", base_url=url, api_key=SecretStr("x"), max_retries=0))
        names = (f"report-kind-{number * skills // 10:03}" for number in range(10))
        for number, task in enumerate(TASKS):
            server.replies = list(kind.steps(task, names))
            for turn in task:
                said = {"messages": [("user", f"{ASKED} ({number}.{turn})")]}
                agent.invoke(said, {"configurable": {"thread_id": str(number)}})
            assert not server.replies, (kind.name, task)
        failed = [each for each in FAILED if each in "".join(server.requests)]
        assert not failed, (kind.name, failed)
        return server.requests


def main() -> int:
    """Print the bills, and return 1 where an aim is missed."""
    print("| skills | agent | first request | sent | of it cached | paid | to create_agent |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    is_missed = False
    for skills, most in SIZES.items():
        bills = {kind.name: bill_of(requests_of(kind, skills)) for kind in KINDS}
        for name, bill in bills.items():
            ratio = bill.paid / bills["create_agent"].paid
            is_missed = is_missed or (name == "skills-agent" and ratio > most)
            figures = " | ".join(f"{each:,.0f}" for each in (bill.first, bill.sent, bill.cached, bill.paid))
            print(f"| {skills} | {name} | {figures} | {ratio:.2f} |", flush=True)
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
