"""How a reply ended, by the word of its provider."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from skills_agent.state.endings import ending_of, fault_of


@pytest.mark.parametrize(
    ("metadata", "ending"),
    [
        ({"finish_reason": "stop"}, "complete"),
        ({"finish_reason": "tool_calls"}, "complete"),
        ({"finish_reason": "STOPSTOP"}, "complete"),  # LangChain joins what two chunks say
        ({"finish_reason": "FinishReason.STOP"}, "complete"),
        ({"stop_reason": "end_turn", "stop_sequence": None}, "complete"),
        ({"stop_reason": "stop_sequence", "stop_sequence": "length"}, "complete"),
        ({"stopReason": "tool_use"}, "complete"),
        ({"done_reason": "stop", "done": True}, "complete"),
        ({"done": True}, "complete"),
        ({"status": "completed", "incomplete_details": None}, "complete"),
        ({"finish_reason": "length"}, "cut"),
        ({"finish_reason": "lengthstop"}, "cut"),
        ({"finish_reason": "MAX_TOKENS"}, "cut"),
        ({"stop_reason": "max_tokens"}, "cut"),
        ({"stop_reason": "model_context_window_exceeded"}, "cut"),
        ({"stopReason": "max_tokens"}, "cut"),
        ({"done_reason": "length"}, "cut"),
        ({"finish_reason": "model_length"}, "cut"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "cut"),
        ({"status": "incomplete"}, "cut"),
        ({"finish_reason": "content_filter"}, "filtered"),
        ({"finish_reason": "SAFETY"}, "filtered"),
        ({"stopReason": "guardrail_intervened"}, "filtered"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
        ({"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, "filtered"),
        ({"prompt_feedback": {"block_reason": 0}, "finish_reason": "STOP"}, "complete"),
        ({"stop_reason": "refusal"}, "refused"),
        ({"stop_reason": "pause_turn"}, "paused"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "broken"),
        ({"finish_reason": "error"}, "broken"),
        ({"finish_reason": "UNKNOWN_99"}, "unknown"),
        ({"finish_reason": "stop it"}, "unknown"),
        ({"finish_reason": None}, "unsaid"),
        ({"finish_reason": ""}, "unsaid"),
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
    assert ending_of(AIMessage("Yes.", additional_kwargs={"refusal": None})) == "unsaid"


def test_only_what_is_kept_and_not_whole_has_a_fault() -> None:
    cut = AIMessage("x", response_metadata={"finish_reason": "length"})
    assert fault_of(cut) == "cut off at the model's limit"
    assert fault_of(AIMessage("x")) == fault_of(None) == ""
