"""The extract that takes the place of a model's summary."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from skills_agent.nodes.summarize import extract
from skills_agent.state.history import size_of


def turns_of_length(number: int, words: int) -> list[list[AnyMessage]]:
    return [
        [
            HumanMessage(f"request {at} " + "リンゴ please " * words),
            AIMessage(f"answer {at}. " + "indeed " * words),
        ]
        for at in range(number)
    ]


def test_an_extract_stays_within_its_size_and_counts_what_it_leaves_out() -> None:
    for number in (1, 4, 30, 200):
        for words in (0, 5, 400):
            for size in (200, 1_000, 8_000):
                turns = turns_of_length(number, words)
                lines = extract(turns, size).splitlines()
                assert size_of("\n".join(lines)) <= size
                told = [line for line in lines if line.startswith("- Asked:")]
                left_out = [f"[{number - len(told)} turns before these are left out]"]
                assert lines == ([] if len(told) == number else left_out) + told
                assert not told or f"request {number - 1}" in told[-1]
