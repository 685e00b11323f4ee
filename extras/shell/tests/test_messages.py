"""Messages of git as here-documents: what bash makes of a line is what it makes of the one without."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.shell.messages import literal

IN_WORD = "git commit -m \"$(cat <<'E'\n{}\nE\n)\"{}"
AS_INPUT = "git commit -q -F - <<'E'{1}\n{0}\nE\n"
TEXTS = st.text(st.sampled_from("ab E'\"\\$`(){}#\n!"), max_size=12)


GIT = """\
#!/usr/bin/python3 -S
import sys
words = sys.argv[1:]
if words[-2:] == ["-F", "-"]:
    words[-2:] = ["-m", sys.stdin.read()]
print(ascii(words))
"""


def told(line: str, place: Path) -> str:
    """Return what bash gives to programs named git, a line each."""
    if not (program := place / "git").exists():
        program.write_text(GIT)
        program.chmod(0o755)
    environment = {"PATH": f"{place}:/usr/bin:/bin"}
    asked = ["bash", "--norc", "-c", line]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.property
@given(text=TEXTS, more=st.sampled_from(["", " && git status"]))
@pytest.mark.parametrize("form", [IN_WORD, AS_INPUT])
def test_a_line_says_the_same_without_its_here_document(
    tmp_path_factory: pytest.TempPathFactory, form: str, text: str, more: str
) -> None:
    line, place = form.format(text, more), tmp_path_factory.getbasetemp()
    if (without := literal(line)) != line:
        assert told(without, place) == told(line, place)


@pytest.mark.parametrize(
    ("line", "without"),
    [
        (IN_WORD.format("It's $A\n", " && git push"), "git commit -m 'It'\"'\"'s $A' && git push"),
        (AS_INPUT.format("a\nb", " && git log"), "git commit -q -m 'a\nb\n' && git log\n"),
        ("echo 'a' \"b\" >> f; git commit -m \"$(cat <<E\na\nE\n)\"", "echo 'a' \"b\" >> f; git commit -m a"),
        ("git add -A && git tag v1 -F - <<E\nplain\nE", "git add -A && git tag v1 -m 'plain\n'"),
        ('git commit -m "$(cat <<E\nplain\nE\n)"', "git commit -m plain"),
    ],
)  # fmt: skip
def test_a_message_of_a_here_document_is_a_word(line: str, without: str) -> None:
    assert literal(line) == without


@pytest.mark.parametrize(
    "line",
    [
        'git commit -m "$(cat <<E\n$(./x)\nE\n)"', "git commit -F - <<E\n`./x`\nE", "./x -F - <<'E'\na\nE",
        "git add x && ./x -F - <<'E'\na\nE", "echo 'git commit -m \"$(cat <<E\na\nE\n)\"'",
        "git commit -F - <<'E' && echo 'a\nE\nb'\nE", "git commit -m \"$(cat <<'E'\na\nE\n./x)\"",
        "git commit -m \"$(cat <<'E'\na\n)\"", "git commit -m \"$(cat x <<'E'\na\nE\n)\"",
        "git commit -F x <<E\na\nE", "git log \"$(git commit -F - <<'E'\na\nE\n)\"",
        "# git commit -F - <<'E'\n./x\nE", "cat <<A && git commit -F - <<'E'\n./x\nE\nA\nb\nE",
    ],
)  # fmt: skip
def test_a_line_in_which_a_shell_sees_more_stays_as_it_is(line: str) -> None:
    assert literal(line) == line
