"""What whole-run tests share: a workspace of their own, and an agent with a scripted model."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# What is read strictly is read so by our code: LangGraph reads this variable when it is imported.
os.environ.pop("LANGGRAPH_STRICT_MSGPACK", None)
# What the agent keeps for its user is in a folder of these tests, whatever home the machine has.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="skills-agent-state-")
# Each client of HTTPS would read 140 certificates, for servers that no test asks.
os.environ["SSL_CERT_FILE"] = f"{os.environ['XDG_STATE_HOME']}/one.pem"
# No test asks an index of packages on the network: those that need one serve their own.
os.environ["PIP_NO_INDEX"] = "1"
os.environ["npm_config_registry"] = "http://127.0.0.1:9/"  # noqa: SIM112 - npm writes it so

import certifi
import hypothesis
import pytest
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.graph.setting_values import kinds_of_extras
from skills_agent.graph.settings import Settings
from skills_agent.skills.policy import Approver
from skills_agent.skills.scripts.runner import ScriptRequest
from tests.agents import Agent
from tests.examples import FULL
from tests.graph.cli.command_line import CommandLine
from tests.machine import SANDBOX
from tests.openai_server import KEY, OpenAIServer, openai_server
from tests.postgres import NoPostgresError, Postgres, running_postgres

hypothesis.settings.register_profile("full", FULL)
# Property tests run in both: `make test` tries a few examples of each, `make test-all` as many as each says.
hypothesis.settings.register_profile("quick", FULL, max_examples=10)
hypothesis.settings.register_profile("search", FULL, max_examples=1_000, derandomize=False)
hypothesis.settings.load_profile("full")


def pytest_configure() -> None:
    """Forget what the developer has set up: a key would send the words of tests to a provider."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    Path(os.environ["SSL_CERT_FILE"]).write_text(first + end)
    for name in [*os.environ]:
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("SKILLS_AGENT_"):
            del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark property tests, and leave what needs a database server, or is a variant, to `make test-all`."""
    for item in items:
        parameters = (
            item.callspec.indices if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if item.get_closest_marker("variants") and any(parameters.values()):
            item.add_marker(pytest.mark.slow)
        if hypothesis.is_hypothesis_test(getattr(item, "function", None)):
            item.add_marker(pytest.mark.property)
        if "postgres" in item.name or "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_unconfigure() -> None:
    """Remove what was kept."""
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return an empty workspace with a home folder of its own beside it."""
    place = tmp_path / "work"
    place.mkdir()
    (tmp_path / "home").mkdir()
    return place


@pytest.fixture
def skills_dir(workspace: Path) -> Path:
    """Return the workspace's folder of skills."""
    return workspace / ".agent" / "skills"


@pytest.fixture
def request_here(tmp_path: Path) -> ScriptRequest:
    """Return a request for a script that says that it ran."""
    script = tmp_path / "skill" / "script.py"
    script.parent.mkdir()
    (tmp_path / "work").mkdir()
    script.write_text("print('ran')")
    return ScriptRequest("demo", script, (), None, tmp_path / "work")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    """Return what keeps threads, one of each kind."""
    if request.param == "memory":
        yield InMemorySaver()
    elif request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as sqlite:
            yield sqlite
    else:
        with PostgresSaver.from_conn_string(request.getfixturevalue("postgres_dsn")) as postgres:
            postgres.setup()
            yield postgres


MakeAgent = Callable[..., Agent]


@pytest.fixture
def make_agent(workspace: Path, tmp_path: Path) -> MakeAgent:
    """Return a function that builds an agent: `make_agent([replies], max_model_calls=3)`.

    In place of replies it takes what `build_graph(model=)` takes; `parts` go there, too.
    """

    def make(
        replies: Sequence[ScriptEntry] | str | Runnable[Any, Any] | None,
        *,
        tools: Sequence[BaseTool] = (),
        skill_tools: Sequence[Any] = (),
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        thread: str = "thread",
        approvers: Sequence[Approver] = (),
        parts: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Agent:
        is_script = isinstance(replies, Sequence) and not isinstance(replies, str)
        model: Any = ScriptedChatModel(replies) if is_script else replies  # type: ignore[arg-type]
        if settings.get("sandbox") == "require" and SANDBOX.level != "bwrap":
            pytest.skip(SANDBOX.reason)
        chosen = {"workspace": workspace, "home": tmp_path / "home", "bundled_skills": False, **settings}
        of_extras = {name: chosen.pop(name) for name in kinds_of_extras().keys() & chosen}
        return Agent(
            model,
            Settings(**chosen, extras=of_extras),
            tools,
            checkpointer or InMemorySaver(),
            thread,
            approvers,
            skill_tools,
            parts or {},
        )

    return make


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """Return the command line, with the skill rain-gauge in the folder that is passed as --skills-dir."""
    cli = CommandLine(tmp_path)
    cli.write_skill()
    return cli


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Return a server that speaks OpenAI's protocol on loopback: `openai:` models are asked there."""
    with openai_server() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Return a running PostgreSQL server, one for all tests of this process."""
    try:
        # The tests end our processes, never the machine: what the server wrote survives without fsync.
        with running_postgres("fsync = off", "max_connections = 300") as server:
            yield server
    except NoPostgresError as error:
        pytest.skip(str(error))


@pytest.fixture
def postgres_dsn(postgres: Postgres) -> str:
    """Return the connection string of an empty database."""
    return postgres.new_database()
