"""skills-agent in front of a server whose replies are not whole."""

from tests.graph.cli.command_line import CommandLine
from tests.openai_server import KEY, Completion, OpenAIServer

CUT = Completion("Norway, Sweden and", finish="length")
FAULT = "The answer is not whole: it was cut off at the model's limit."


def test_a_cut_answer_is_printed_and_is_no_success(cli: CommandLine, server: OpenAIServer) -> None:
    server.answers += [CUT, CUT, CUT]
    address = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
    done = cli.run("ask", "Which?", "--thread", "t-1", **address)
    assert done.code == 1
    assert done.out.endswith("Norway, Sweden and\n\n[This answer was cut off at the model's limit.]\n")
    assert FAULT in done.errors
    shown = cli.run("threads", "show", "t-1")
    assert (shown.code, "cut off at the model's limit" in shown.out) == (0, True)
    done = cli.run("ask", "Which?", "--json", **address)
    assert (done.code, done.value["status"], done.value["error"]) == (1, "incomplete", FAULT)
    assert done.value["answer"].startswith("Norway, Sweden and")
    done = cli.run("chat", stdin="Which?\n", **address)
    assert (done.code, "Norway, Sweden and" in done.out, FAULT in done.errors) == (1, True, True)
