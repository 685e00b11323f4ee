"""PostgreSQL: the same threads, in a real server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from skills_agent.graph.threads.errors import DatabaseError
from skills_agent.server.postgres import open_postgres, without_password
from tests.graph.cli.command_line import LOAD, RUN, CommandLine, without_machine_warnings
from tests.kit import MakeAgent
from tests.postgres import Postgres
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

ANSWER = "Together it rained 544 mm."
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


@pytest.fixture
def dsn(postgres_dsn: str) -> str:
    return postgres_dsn


def say(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def ask(cli: CommandLine, dsn: str, *replies: Any, thread: str = "rain") -> Any:
    model = cli.script(*replies, name=f"{thread}.json")
    options = ["--skills-dir", str(cli.skills), "--model", model, "--thread", thread]
    return cli.run("ask", "How much rain?", *options, SKILLS_AGENT_SERVER_DATABASE=dsn)


def test_a_question_asked_in_one_process_is_answered_in_another(cli: CommandLine, dsn: str) -> None:
    """Threads and their journal are in the database alone, and go with it."""
    rows = "SELECT tool, status FROM skills_agent_journal WHERE tool != ''"
    assert ask(cli, dsn, LOAD, RUN, ANSWER).code == 3
    answer = ("--approve", "--always", "skill")
    resumed = cli.run_process("resume", "rain", *answer, SKILLS_AGENT_SERVER_DATABASE=dsn)
    assert resumed.out.endswith(f"\n\n{ANSWER}\n")
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute(rows).fetchall() == [("run_script", "done")]
        shown = cli.run("threads", "show", "rain", SKILLS_AGENT_SERVER_DATABASE=dsn)
        assert "all stations: 544 mm" in shown.out
        assert not {each.name for each in cli.state.iterdir()} & {"threads.sqlite", "journal.sqlite"}
        deleted = cli.run("threads", "delete", "rain", "--yes", SKILLS_AGENT_SERVER_DATABASE=dsn)
        assert deleted.code == 0
        assert connection.execute(rows).fetchall() == []


def test_the_option_is_in_the_command_that_resumes_without_its_password(
    cli: CommandLine, dsn: str, postgres: Postgres
) -> None:
    options = ("--model", cli.script(LOAD, RUN, ANSWER), "--thread", "rain", "--checkpointer", dsn)
    asked = cli.run_process("ask", "How much rain?", "--skills-dir", str(cli.skills), *options)
    assert asked.code == 3
    command = asked.out.rpartition("To run it: ")[2].split()
    assert command[command.index("--checkpointer") + 1] == without_password(dsn)
    resumed = cli.run_process(*command[1:], PGPASSWORD=postgres.password)
    assert resumed.out.endswith(f"\n\n{ANSWER}\n")


def test_the_password_is_shown_and_kept_nowhere(cli: CommandLine, dsn: str, postgres: Postgres) -> None:
    shown = [ask(cli, dsn, LOAD, RUN, ANSWER)]
    command = shown[0].out.rpartition("To run it: skills-agent ")[2].split()
    assert command[:3] == ["resume", "rain", "--approve"]
    bare = without_password(dsn)
    shown.append(cli.run(*command, SKILLS_AGENT_SERVER_DATABASE=bare, PGPASSWORD="wrong"))
    assert "password authentication failed" in shown[-1].err
    shown.append(cli.run(*command, SKILLS_AGENT_SERVER_DATABASE=bare, PGPASSWORD=postgres.password))
    assert shown[-1].out.endswith(f"{ANSWER}\n")
    for wrong in (f"{dsn}x", dsn.replace(f":{postgres.port}/", ":1/"), dsn.replace("//", "/"), f"{dsn}#1"):
        shown.append(cli.run("threads", "list", SKILLS_AGENT_SERVER_DATABASE=wrong))
        assert shown[-1].code == 1
    assert not [each for each in shown if postgres.password in each.out + each.err]
    with psycopg.connect(dsn) as connection:
        stored = [connection.execute(f"SELECT * FROM {each}".encode()).fetchall() for each in TABLES]
    assert all(stored)
    assert postgres.password not in repr(stored)
    files = [path for path in cli.workspace.rglob("*") if path.is_file()]
    assert not [path for path in files if postgres.password.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://ann:secret@db:5432/x", "postgresql://ann@db:5432/x"),
        ("postgres://ann@db/x", "postgres://ann@db/x"),
        ("postgresql:///x?host=/run/pg&password=secret&user=a", "postgresql:///x?host=/run/pg&user=a"),
        ("postgresql://ann:secret@a:1,b:2/x?sslmode=require", "postgresql://ann@a:1,b:2/x?sslmode=require"),
        ("postgresql://:secret@db", "postgresql://db"),
        ("postgresql://", "postgresql://"),
        ("postgresql://ann%40srv:secret@db/x", "postgresql://ann%40srv@db/x"),
        ("postgresql://ann:se?c#ret@db/x", "postgresql://ann@db/x"),
        ("host=db password=secret", "host=db"),
        # libpq takes a part of these passwords for a host or a database.
        ("postgresql://ann:se@cret@db/x", ""),
        ("postgresql://ann:se/cret@db/x", ""),
        ("sqlite:///x", ""),
    ],
)
def test_a_connection_string_is_shown_without_its_password(dsn: str, shown: str) -> None:
    assert without_password(dsn) == shown


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("postgresql://", "mysql://"), "takes postgresql://user@host"),
        (("/db_", "/no_db_"), "does not exist"),
        (("127.0.0.1", "127.0.0.1:1,127.0.0.1"), "Cannot keep threads in postgresql://postgres@127.0.0.1:1,"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line(
    cli: CommandLine, dsn: str, change: tuple[str, str], text: str
) -> None:
    if "," in change[1]:
        dsn = dsn.rpartition("@")[0] + "@127.0.0.1:1,127.0.0.1:2/x"
    for command in (["threads", "list"], ["ask", "x"]):
        done = cli.run(*command, SKILLS_AGENT_SERVER_DATABASE=dsn.replace(*change))
        assert (done.code, done.out, done.errors.count("\n")) == (1, "", 1)
        assert text in done.err


def test_another_database_is_refused_before_a_package_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for dsn, told in (("mysql://me@db/x", "takes postgresql://user@"), ("host=db dbname=x", "packages")):
        with pytest.raises(DatabaseError, match=told), open_postgres(dsn):
            pass


def test_no_file_of_a_workspace_names_the_database(cli: CommandLine, dsn: str) -> None:
    cli.write(".agent/config.json", json.dumps({"server_database": dsn}))
    done = cli.run("ask", "x", "--model", cli.script("Hello."))
    assert done.code == 0
    assert "Ignored: server_database" in done.err
    assert "There is no thread" in cli.run("threads", "show", "x", SKILLS_AGENT_SERVER_DATABASE=dsn).err
    trusted = cli.run("trust")
    assert trusted.code == 1
    assert trusted.err.startswith("error: Setting server_database cannot be in ")


def test_a_conversation_goes_on_after_the_server_crashed(
    cli: CommandLine, dsn: str, postgres: Postgres
) -> None:
    options = ["--thread", "talk", "--model", cli.script("First.", "Second.")]
    process = cli.start_piped("chat", *options, SKILLS_AGENT_SERVER_DATABASE=dsn)
    assert process.stdin
    assert process.stdout
    say(process, "One?")
    assert any(line == "First.\n" for line in process.stdout)
    postgres.stop("immediate")
    postgres.start()
    out, told = process.communicate("Two?\n", timeout=PATIENCE)
    assert (process.returncode, without_machine_warnings(told)) == (0, "")
    assert "Second." in out


def test_a_server_that_goes_away_in_a_run_is_told_to_machines_with_the_way_on(
    cli: CommandLine, dsn: str, postgres: Postgres
) -> None:
    cli.write_users_settings('sandbox = "off"\n')  # else it reaches no pipe of the workspace
    script = cli.skills / "rain-gauge" / "scripts" / "add_up.py"
    script.write_text('open("gate").read()\n')
    os.mkfifo(cli.workspace / "gate")
    process = cli.start(
        *("ask", "How much rain?", "--thread", "rain", "--skills-dir", str(cli.skills), "--yes", "run"),
        *("--model", cli.script(LOAD, RUN, ANSWER), "--json"),
        SKILLS_AGENT_SERVER_DATABASE=dsn,
    )
    gate = (cli.workspace / "gate").open("w")  # returns when the script reads it
    postgres.stop("immediate")
    gate.close()
    try:
        out, told = process.communicate(timeout=PATIENCE)
    finally:
        postgres.start()
    failed = json.loads(out)
    assert process.returncode == 1
    assert (failed["thread"], failed["status"]) == ("rain", "error")
    assert failed["error"].startswith("Cannot keep threads in postgresql://postgres@127.0.0.1")
    command = "skills-agent resume rain"
    assert failed["resume"] == command
    assert without_machine_warnings(told) == f"error: {failed['error']} To go on from there: {command}\n"
    assert postgres.password not in out
    (cli.workspace / "gate").unlink()
    (cli.workspace / "gate").write_text("")
    asked = cli.run("resume", "rain", "--json", SKILLS_AGENT_SERVER_DATABASE=dsn)
    assert (asked.code, asked.value["status"]) == (3, "waiting")
    assert "is unknown" in asked.value["interrupt"]["action_requests"][0]["description"]


OPEN = """\
import sys
from pathlib import Path

from skills_agent.graph import Settings, Threads

settings = Settings(workspace=Path(sys.argv[1]), extras={"server_database": sys.argv[2]})
import langgraph.checkpoint.postgres, psycopg, psycopg_pool
print(flush=True)
sys.stdin.readline()
with Threads.open(settings) as threads:
    assert list(threads.list()) == []
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_several_processes_may_be_the_first_at_the_same_time(
    kind: str, tmp_path: Path, postgres: Postgres
) -> None:
    dsn = postgres.new_database() if kind == "postgres" else ""
    command = [sys.executable, "-c", OPEN, str(tmp_path), dsn]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    for process in started:
        assert process.stdout
        process.stdout.readline()
    for process in started:
        say(process, "now")
    ends = [process.communicate(timeout=PATIENCE)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, "\n".join(ends)


@contextmanager
def sync_saver(dsn: str) -> Iterator[PostgresSaver]:
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
        yield saver


def test_a_long_thread_replays_beyond_its_snapshots(make_agent: MakeAgent, dsn: str) -> None:
    """LangGraph stores a delta channel whole now and then: what came before and after is there, once."""
    replies = [f"Answer {number}" for number in range(60)]
    with sync_saver(dsn) as saver:
        agent = make_agent(replies, checkpointer=saver)
        for number in range(60):
            agent.say(f"Turn {number}")
    with sync_saver(dsn) as saver:
        said = [str(each.content) for each in make_agent(replies, checkpointer=saver).transcript]
    assert said == [text for n in range(60) for text in (f"Turn {n}", f"Answer {n}")]


@pytest.mark.parametrize("text", ["a\x00b", "a\udc80b"])
def test_text_that_postgres_cannot_hold_ends_no_run(make_agent: MakeAgent, dsn: str, text: str) -> None:
    with sync_saver(dsn) as saver:
        agent = make_agent([f"So: {text}", "And on."], checkpointer=saver)
        assert agent.say(f"What is {text}?")["answer"].startswith("So: a")
        assert agent.say("And?")["answer"] == "And on."
