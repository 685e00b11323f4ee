"""How a reply ended, by the word of its provider."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from skills_agent.state.endings import ending_of


@pytest.mark.parametrize(
    ("metadata", "ending"),
    [
        ({"finish_reason": "stop"}, "complete"),
        ({"finish_reason": "STOPSTOP"}, "complete"),  # LangChain joins what two chunks say
        ({"finish_reason": "FinishReason.STOP"}, "complete"),
        ({"stop_reason": "end_turn", "stop_sequence": None}, "complete"),
        ({"stopReason": "tool_use"}, "complete"),
        ({"done": True}, "complete"),
        ({"status": "completed", "incomplete_details": None}, "complete"),
        ({"finish_reason": "lengthstop"}, "cut"),
        ({"finish_reason": "MAX_TOKENS"}, "cut"),
        ({"done_reason": "length"}, "cut"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "cut"),
        ({"status": "incomplete"}, "cut"),
        ({"finish_reason": "SAFETY"}, "filtered"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
        ({"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, "filtered"),
        ({"prompt_feedback": {"block_reason": 0}, "finish_reason": "STOP"}, "complete"),
        ({"stop_reason": "refusal"}, "refused"),
        ({"stop_reason": "pause_turn"}, "paused"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "broken"),
        ({"finish_reason": "UNKNOWN_99"}, "unknown"),
        ({"finish_reason": "stop it"}, "unknown"),
        ({"finish_reason": None}, "unsaid"),
        ({"status": 200}, "unsaid"),
        ({}, "unsaid"),
    ],
)
def test_each_word_has_its_meaning(metadata: dict[str, Any], ending: str) -> None:
    assert ending_of(AIMessage("x", response_metadata=metadata)) == ending


def test_a_refusal_is_known_by_what_stands_beside_the_text() -> None:
    whole = AIMessage("", additional_kwargs={"refusal": "No."}, response_metadata={"finish_reason": "stop"})
    block = AIMessage([{"type": "refusal", "refusal": "No."}], response_metadata={"status": "completed"})
    assert ending_of(whole) == ending_of(block) == "refused"
