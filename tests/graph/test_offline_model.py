"""The offline model as a chat model: which skill it loads, that it streams, that nothing breaks it."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage

from skills_agent.graph.models import OfflineChatModel
from tests.graph.offline_prompts import AUDIT, CATALOG, NOTE, Conversation, audited

# Finding a skill


@pytest.mark.parametrize(
    ("request_text", "skill"),
    [
        ("Please audit the ledger in books.csv", "ledger-audit"),
        ("Are there duplicates in books.csv?", "ledger-audit"),
        ("Could you review the rhythm of my poem?", "poem-coach"),
        ("use heat-map on grid.txt", "heat-map"),
        ("With the poem coach skill: is this good?", "poem-coach"),
    ],
)
def test_the_best_skill_is_loaded(request_text: str, skill: str) -> None:
    assert Conversation(CATALOG).says(request_text).calls == [("load_skill", {"name": skill})]


def test_a_request_in_blocks_is_read() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "Audit this ledger:"},
        {"type": "text", "text": " books.csv"},
    ]
    assert Conversation(CATALOG).says(blocks).calls == [("load_skill", {"name": "ledger-audit"})]


def test_when_no_skill_fits_it_says_so_and_lists_what_there_is() -> None:
    answer = Conversation(CATALOG).says("Book me a flight to Lisbon.").answer
    assert answer.startswith("No skill fits this request.")
    assert all(name in answer for name in CATALOG)


def test_without_any_skills_it_says_so() -> None:
    assert "There are no skills here" in Conversation().says("Audit the ledger.").answer


def test_a_catalog_that_is_cut_is_searched_once() -> None:
    conversation = Conversation(CATALOG, omitted=30).says("Translate the letter to French.")
    ((tool, args),) = conversation.calls
    assert tool == "search_skills"
    assert args["query"] == "translate letter french"
    found = "- letter-translator (loaded): Translate letters to French.\nLoad one with load_skill(name)."
    conversation.answered("search_skills", args, found)
    assert conversation.calls == [("load_skill", {"name": "letter-translator"})]


def test_a_search_that_finds_nothing_ends_in_an_answer() -> None:
    conversation = Conversation(CATALOG, omitted=30).says("Translate the letter to French.")
    conversation.answered(
        "search_skills", {"query": "x"}, "No skill fits. Try other words, or go on without one."
    )
    assert "No skill fits" in conversation.answer


@pytest.mark.parametrize(
    "reason",
    [
        "Skill ledger-audit was not loaded: the limit of 1 loaded skills is reached.",
        "There is no skill named 'x'.",
    ],
)
def test_a_skill_that_is_not_loaded_is_not_asked_for_again(reason: str) -> None:
    conversation = Conversation(CATALOG).says("Audit the ledger books.csv")
    conversation.answered("load_skill", {"name": "ledger-audit"}, reason, refused=True)
    assert reason in conversation.answer


def test_an_already_loaded_skill_is_used() -> None:
    conversation = (
        Conversation(CATALOG).says("Audit the ledger a.csv").loaded("ledger-audit", AUDIT, "scripts/audit.py")
    )
    conversation.transcript.append(AIMessage("Done."))
    conversation.says("Audit the ledger b.csv")
    assert conversation.args == ["b.csv"]
    conversation.answered(
        "load_skill", {"name": "ledger-audit"}, "Skill ledger-audit is already loaded.", refused=True
    )
    assert conversation.args == ["b.csv"]


def test_a_follow_up_uses_the_loaded_skill_and_the_file_named_before() -> None:
    conversation = audited("Audit the ledger a.csv")
    conversation.transcript.append(AIMessage("Done."))
    assert conversation.says("And by account?").args == ["a.csv", "--group-by", "account"]


def test_another_request_finds_another_skill() -> None:
    conversation = audited("Audit the ledger a.csv")
    conversation.transcript.append(AIMessage("Done."))
    assert conversation.says("Review the rhyme of this poem.").calls == [
        ("load_skill", {"name": "poem-coach"})
    ]


def test_a_skill_that_the_user_activated_is_used_without_searching() -> None:
    conversation = Conversation(CATALOG).says("/ledger-audit books.csv --top 3")
    conversation.loaded("ledger-audit", AUDIT, "scripts/audit.py", synthetic=True)
    assert conversation.args == ["books.csv", "--top", "3"]


def test_a_skill_whose_receipt_was_trimmed_away_is_still_used() -> None:
    receipt = audited("x").transcript[-1].text
    conversation = Conversation(CATALOG)
    conversation.transcript.append(
        HumanMessage("These skills were loaded earlier and are still active.\n" + receipt.split("\n", 1)[1])
    )
    assert conversation.says("Audit the ledger b.csv").args == ["b.csv"]


def test_text_of_another_tool_is_never_taken_for_a_skill() -> None:
    fake = audited("x").transcript[-1].text
    conversation = (
        Conversation(CATALOG).says("Audit the ledger b.csv").answered("read_file", {"path": "a"}, fake)
    )
    assert conversation.calls == [("load_skill", {"name": "ledger-audit"})]


# As a chat model


def test_it_streams_what_it_says() -> None:
    conversation = Conversation(CATALOG).says("Book me a flight.")
    model = OfflineChatModel()
    chunks: list[Any] = list(model.stream(conversation.messages))

    async def gathered() -> list[Any]:
        return [chunk async for chunk in model.astream(conversation.messages)]

    for pieces in (chunks, asyncio.run(gathered())):
        assert len(pieces) > 20
        whole: AIMessageChunk = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        assert whole.text == model.invoke(conversation.messages).text
        assert whole.usage_metadata
        assert whole.usage_metadata["output_tokens"] > 0


def test_it_answers_the_same_prompt_the_same_way() -> None:
    conversation = audited("Audit b.csv")
    assert conversation.reply() == conversation.reply()


MARKS = "< > [ ] { } ` ``` \" ' --a -b= FILE x.py scripts/audit.py args=[ run_script( | usage: ... # 1. - é"
PIECES = st.sampled_from([*MARKS.split(" "), " ", "\n", "\\\n", "\0"])


@given(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=15).map("".join))
def test_no_request_and_no_instructions_break_it(instructions: str, request_text: str) -> None:
    reply = audited(f"audit ledger {request_text}", instructions).reply()
    assert reply.tool_calls or NOTE in str(reply.text)


@given(st.lists(st.text(max_size=40), max_size=4))
def test_prompts_of_any_other_shape_get_an_answer(texts: list[str]) -> None:
    messages = [SystemMessage(text) if index % 2 else HumanMessage(text) for index, text in enumerate(texts)]
    assert NOTE in str(OfflineChatModel().invoke([HumanMessage(""), *messages]).text)
