"""The extract that takes the place of a model's summary."""

from itertools import product

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from skills_agent.nodes.summarize import extract
from skills_agent.state.history import size_of


@pytest.mark.parametrize("number", [1, 4, 30, 200])
def test_an_extract_stays_within_its_size_and_counts_what_it_leaves_out(number: int) -> None:
    for words, size in product((0, 5, 400), (200, 1_000, 8_000)):
        asked = [HumanMessage(f"request {at} " + "リンゴ please " * words) for at in range(number)]
        turns: list[list[AnyMessage]] = [[each, AIMessage("answer. " + "indeed " * words)] for each in asked]
        lines = extract(turns, size).splitlines()
        assert size_of("\n".join(lines)) <= size
        told = [line for line in lines if line.startswith("- Asked:")]
        left_out = [f"[{number - len(told)} turns before these are left out]"]
        assert lines == ([] if len(told) == number else left_out) + told
        assert not told or f"request {number - 1}" in told[-1]
