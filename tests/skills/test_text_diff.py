"""What a person reads of two texts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.text_diff import diff

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "\u2028\n", "x"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_a_diff_leads_from_the_one_text_to_the_other(before: str, after: str) -> None:
    assert apply(before, diff(before, after)) == after


def test_a_text_that_makes_diffs_slow_is_shown_as_replaced() -> None:
    before, after = (
        "same\n" + "".join(f"{number * factor % 150}\n" for number in range(20_000)) + "end\n"
        for factor in (1, 7)
    )
    assert apply(before, diff(before, after)) == after


def apply(before: str, text: str) -> str:
    """Apply a unified diff, as `patch` would."""
    old, made, at = re.findall(r"[^\n]*\n|[^\n]+", before), list[str](), 0
    for line in _lines(text):
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            made, at = made + old[at:begin], begin
            continue
        made += [line[1:]] if line[0] in "+ " else []
        at += line[0] in "- "
    return "".join(made + old[at:])


def _lines(text: str) -> list[str]:
    lines = re.findall(r"[^\n]*\n", text)
    ends = [number for number, line in enumerate(lines) if line.startswith("\\")]
    for number in ends:
        lines[number - 1] = lines[number - 1].removesuffix("\n")
    return [line for line in lines if not line.startswith("\\")]
