"""How a model's reply ended: what the providers say about it, in one table."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage

Ending = Literal["complete", "cut", "filtered", "refused", "broken", "unknown", "unsaid", "paused"]
"""`cut`: at the model's limit. `broken`: the provider gave up on it. `unknown`: a word that is not in the
table. `unsaid`: no word at all, as of models in this process and of streams that were cut off. `paused`: the
provider, which runs tools of its own, takes a long turn in parts."""

_WORDS: Final[Mapping[Ending, str]] = {
    # The worst first: what a stream says twice is joined by LangChain, as in `lengthstop`.
    "broken": "error failed cancelled canceled usercancel abort aborted inprogress queued load unload other "
    "malformedfunctioncall malformedtooluse malformedmodeloutput unexpectedtoolcall toomanytoolcalls "
    "missingthoughtsignature insufficientsystemresource timelimit",
    "cut": "length maxtokens maxoutputtokens maxlength modellength tokenlimit modelcontextwindowexceeded "
    "errorlimit incomplete",
    "filtered": "contentfilter contentfiltered safety imagesafety recitation imagerecitation language "
    "blocklist prohibitedcontent imageprohibitedcontent spii guardrailintervened errortoxic",
    "refused": "refusal",
    "paused": "pauseturn",
    "complete": "stop endturn stopsequence toolcalls toolcall tooluse functioncall complete "
    "completed eos eostoken",
}
"""What OpenAI (both APIs), Anthropic, Gemini, Ollama, Bedrock, Mistral, DeepSeek, Cohere, vLLM, Hugging Face
and watsonx say, in small letters."""
_ENDINGS: Final = {word: ending for ending, words in _WORDS.items() for word in words.split()}
_WORD: Final = re.compile("|".join(sorted(_ENDINGS, key=len, reverse=True)))
_BRACKETS: Final = str.maketrans("[]", "()")
_FIELDS: Final = ("finish_reason", "stop_reason", "stopReason", "finishReason", "done_reason", "status")
"""Where LangChain's models keep the word in `response_metadata`."""

SAYS_HOW_IT_ENDED: Final = frozenset(
    {"openai", "azure", "anthropic", "google_genai", "google_vertexai", "ollama", "amazon_bedrock"}
    | {"bedrock_converse", "mistral", "mistralai", "groq", "deepseek", "fireworks", "together", "xai"}
)
"""Providers, by LangChain's names, whose streams end with such a word: one without it was cut off."""

FAULTS: Final[Mapping[Ending, str]] = {
    "cut": "cut off at the model's limit",
    "filtered": "stopped by the provider's filter",
    "refused": "refused by the model",
    "paused": "paused by the provider before its end",
}
"""Of replies that are kept although they are not whole; none of their calls is run."""

NOTE: Final = re.compile(r"\[This answer was [^\[\]]+\.\]\s*\Z")
"""What people read at the end of such an answer. A model that reads it writes it, too: no prompt has it."""


def note_that(fault: str) -> str:
    """Return the note that an answer was cut off, or whatever it was, for people."""
    return f"[This answer was {fault.translate(_BRACKETS)}.]"


def ending_of(message: AIMessage) -> Ending:
    """Return how a reply ended, by the word of its provider."""
    if refusal_of(message):
        return "refused"
    if _is_blocked(message.response_metadata.get("prompt_feedback")):
        return "filtered"
    word = word_in(message.response_metadata)
    return _meaning(word) if word else "unsaid"


def word_in(metadata: Mapping[str, Any]) -> str:
    """Return the word for how a reply ended, from its metadata or a chunk's; empty where there is none."""
    details = metadata.get("incomplete_details")
    words = [details.get("reason")] if isinstance(details, Mapping) else []
    words += [metadata.get(name) for name in _FIELDS]
    words += ["complete"] if metadata.get("done") is True else []  # Early releases of Ollama say no more.
    return next((word for word in words if isinstance(word, str) and word), "")


def fault_of(message: AIMessage | None) -> str:
    """Return in some words why a kept reply is not whole; empty where it is, or where nobody knows."""
    return FAULTS.get(ending_of(message), "") if message else ""


def refusal_of(message: AIMessage) -> str:
    """Return what the model said to refuse, where its provider tells that apart from an answer."""
    blocks = message.content if isinstance(message.content, list) else ()
    texts = [
        block.get("refusal") for block in blocks if isinstance(block, dict) and block.get("type") == "refusal"
    ]
    return "".join(str(each) for each in [message.additional_kwargs.get("refusal"), *texts] if each)


@lru_cache
def _meaning(said: str) -> Ending:
    letters = re.sub("[^a-z]", "", said.rpartition(".")[2].lower())
    words = _WORD.findall(letters)
    if not words or "".join(words) != letters:
        return "unknown"
    endings = {_ENDINGS[word] for word in words}
    return next(ending for ending in _WORDS if ending in endings)


def _is_blocked(feedback: Any) -> bool:
    reason = feedback.get("block_reason") if isinstance(feedback, Mapping) else None
    return bool(reason) and "UNSPECIFIED" not in str(reason)
