"""text-stats: real processes on prose, Markdown and logs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "skills" / "bundled" / "text-stats" / "scripts" / "stats.py"
PLAIN = (
    "The boat was old. We took it out on the lake when the wind was low, and we came back before dark. "
    "She had a book with her. He had nothing but his hat. In the end they all said that it was a good day. "
)


def run(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script as the agent does."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        input=stdin or "",
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        timeout=60,
    )


def stats(folder: Path, content: str | bytes, name: str = "x.txt", *arguments: str) -> dict[str, Any]:
    """Write a file and return its figures."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(folder, name, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found[0]


def test_words_sentences_paragraphs_and_lines_are_counted(tmp_path: Path) -> None:
    found = stats(tmp_path, "One two three. Four five!\nSix?\n\nSeven don't e-mail 3.5.\n")
    assert (found["words"], found["sentences"], found["paragraphs"], found["lines"]) == (10, 4, 2, 4)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Dr. Smith met Mr. Jones at 3.15 p.m. on Monday.", 1),
        ("J. R. R. Tolkien wrote it. We read it.", 2),
        ("See e.g. the index, i.e. the last page.", 1),
        ("Really?! Yes... it works. ok", 2),
        ('He said "Stop." Then he left.', 2),
        ("No end", 1),
        ("日本語。二つ目。", 2),
        ("...", 0),
        ("", 0),
    ],
)
@pytest.mark.variants
def test_sentences_end_where_a_reader_would_end_them(tmp_path: Path, text: str, number: int) -> None:
    assert stats(tmp_path, text)["sentences"] == number


def test_readability_is_flesch(tmp_path: Path) -> None:
    found = stats(tmp_path, PLAIN * 4)
    assert found["readability"]["words"] in {"easy", "very easy"}
    assert found["readability"]["ease"] > 80
    assert found["reading_minutes"] == 1


def test_readability_is_not_given_for_few_words_or_other_languages(tmp_path: Path) -> None:
    assert "fewer than 100 words" in stats(tmp_path, PLAIN)["readability"]
    german = "Der Hund lief schnell über die Straße und bellte laut, weil niemand ihn gerufen hatte. " * 10
    assert "does not look like English" in stats(tmp_path, german)["readability"]


def test_the_longest_sentences_come_with_their_line(tmp_path: Path) -> None:
    found = stats(tmp_path, "Short one.\n\nThis is the longest sentence of them all.\n\nA short two.\n")
    assert found["longest_sentences"][0] == {
        "line": 3,
        "words": 8,
        "text": "This is the longest sentence of them all.",
    }


def test_frequent_terms_leave_out_words_without_meaning(tmp_path: Path) -> None:
    found = stats(tmp_path, "The parser and the lexer. A Parser is in the parser. 42 42 42 42")
    assert found["terms"][0] == ["parser", 3]
    assert {term for term, _ in found["terms"]} == {"parser", "lexer"}


MARKDOWN = """\
---
title: not counted
---
# Title with `code`

Some text with a [link](https://example.org/a_(b)) and <https://example.org>. ![alt](x.png)
Second line with https://bare.example.org/x.

Sub *title*
-----------

- first item
- [x] second **item**

| a | b |
|---|---|
| c | d |

```python
# not a heading
code = "not words"
```

<!-- not
counted -->

### Deep ###

[ref]: https://example.org/ref
See [there][ref].
"""


def test_markdown_is_taken_apart(tmp_path: Path) -> None:
    found = stats(tmp_path, MARKDOWN, "x.md")
    assert found["kind"] == "markdown"
    assert [(each["line"], each["level"], each["text"]) for each in found["headings"]] == [
        (4, 1, "Title with code"),
        (9, 2, "Sub title"),
        (27, 3, "Deep"),
    ]
    assert (found["links"], found["images"]) == (4, 1)
    assert (found["code_blocks"], found["code_lines"]) == (1, 2)
    assert found["paragraphs"] == 6
    assert "not" not in {term for term, _ in found["terms"]}


def test_html_is_left_out_but_not_in_code(tmp_path: Path) -> None:
    found = stats(tmp_path, "Say <b>this</b> and `list<item>` now.\n", "x.md")
    assert found["longest_sentences"][0]["text"] == "Say this and list<item> now."


def test_the_outline_is_indented(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# A\n\n## B\n\ntext\n", encoding="utf-8")
    assert "Outline (2 headings):\n- A (line 1)\n  - B (line 3)\n" in run(tmp_path, "x.md").stdout


LOG = """\
2025-03-01 10:00:00,123 INFO start worker 17
2025-03-01 10:00:01,001 ERROR no route to 10.0.0.7:8080 after 30 s
2025-03-01 10:00:02,555 WARNING slow
2025-03-01 10:00:03,777 ERROR no route to 10.0.0.9:8080 after 31 s
"""


def test_a_log_is_recognized_and_its_messages_are_counted(tmp_path: Path) -> None:
    found = stats(tmp_path, LOG)
    assert found["kind"] == "log"
    assert found["log"]["levels"] == {"ERROR": 2, "INFO": 1, "WARN": 1}
    assert found["log"]["messages"][0] == ["ERROR no route to <address> after <n> s", 2]
    assert (found["log"]["first"], found["log"]["last"]) == (
        "2025-03-01 10:00:00,123",
        "2025-03-01 10:00:03,777",
    )


def test_the_kind_can_be_set(tmp_path: Path) -> None:
    assert stats(tmp_path, LOG, "x.log", "--kind", "text")["log"] is None
    assert stats(tmp_path, "hello", "x.log")["kind"] == "log"


def test_standard_input(tmp_path: Path) -> None:
    done = run(tmp_path, "-", stdin="Two words.\n")
    assert "Words: 2\n" in done.stdout


def test_several_files_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("three\n\nfour\n", encoding="utf-8")
    assert run(tmp_path, "a.txt", "b.txt").stdout.endswith("\nAll 2 files: lines 4, words 4\n")


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("\ufeffcafé".encode(), "utf-8"),
        ("café".encode("cp1252"), "cp1252"),
        (b"caf\xe9 \x81", "latin-1"),
        ("café".encode("utf-16"), "utf-16"),
    ],
)
def test_encodings(tmp_path: Path, content: bytes, encoding: str) -> None:
    found = stats(tmp_path, content)
    assert (found["encoding"], found["terms"][0][0]) == (encoding, "café")


def test_an_empty_file_has_zero_of_everything(tmp_path: Path) -> None:
    found = stats(tmp_path, "")
    assert {found[name] for name in ("words", "sentences", "paragraphs", "lines", "reading_minutes")} == {0}
    assert stats(tmp_path, "", "x.md")["headings"] == []


def test_a_script_without_spaces_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("これは日本語の文章です。", encoding="utf-8")
    assert "no spaces between words" in run(tmp_path, "x.txt").stdout


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "nowhere.txt")
    assert done.returncode == 2
    assert "no such file: nowhere.txt" in done.stderr


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    done = run(tmp_path, "x.bin")
    assert done.returncode == 1
    assert "not text" in done.stderr


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# a\x1b[31m\n\nb\u202e c.\n", encoding="utf-8")
    out = run(tmp_path, "x.md").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
