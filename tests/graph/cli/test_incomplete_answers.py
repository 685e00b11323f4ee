"""skills-agent in front of a server whose replies are not whole."""

from collections.abc import Callable

import pytest

from tests.graph.cli.command_line import CommandLine, Finished
from tests.openai_server import KEY, Completion, OpenAIServer

CUT = Completion("Norway, Sweden and", finish="length")
FAULT = "The answer is not whole: it was cut off at the model's limit."
Run = Callable[..., Finished]


@pytest.fixture
def run(cli: CommandLine, server: OpenAIServer) -> Run:
    def run(*args: str, stdin: str = "") -> Finished:
        address = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
        return cli.run(*args, stdin=stdin, **address)

    return run


def test_a_cut_answer_is_printed_and_is_no_success(server: OpenAIServer, run: Run) -> None:
    server.answers.append(CUT)
    done = run("ask", "Which?", "--thread", "t-1")
    assert done.code == 1
    assert done.out.endswith("Norway, Sweden and\n\n[This answer was cut off at the model's limit.]\n")
    assert FAULT in done.errors
    shown = run("threads", "show", "t-1")
    assert (shown.code, "cut off at the model's limit" in shown.out) == (0, True)


def test_a_cut_answer_is_told_to_a_machine_and_ends_a_chat_in_a_pipe(server: OpenAIServer, run: Run) -> None:
    server.answers += [CUT, CUT]
    done = run("ask", "Which?", "--json")
    assert (done.code, done.value["status"], done.value["error"]) == (1, "incomplete", FAULT)
    assert done.value["answer"].startswith("Norway, Sweden and")
    done = run("chat", stdin="Which?\n")
    assert (done.code, "Norway, Sweden and" in done.out, FAULT in done.errors) == (1, True, True)
