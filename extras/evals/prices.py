"""What a run costs: only with prices that the operator gave, in USD per million tokens."""

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage

from skills_agent.evals.cases.trajectory import Spent
from skills_agent.graph.setting_values import Price

IN_PROCESS: Final = frozenset({"offline", "scripted"})
"""Models that answer in this process: they cost nothing, whatever they count."""
_MILLION: Final = 1_000_000


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model; None where the operator gave none."""
    return prices.get(model) or (Price() if model.partition(":")[0] in IN_PROCESS else None)


def spent_on(reply: AIMessage, seconds: float, price: Price | None) -> Spent:
    """Return what one reply took, as its provider counts it."""
    usage: Mapping[str, Any] = reply.usage_metadata or {}
    cached = (usage.get("input_token_details") or {}).get("cache_read")
    return _spent({**usage, "cache_read_tokens": cached, "model_calls": 1}, seconds, price)


def spent_of(values: Mapping[str, Any], seconds: float, price: Price | None) -> Spent:
    """Return what a thread took, as its channel `usage` counts it."""
    return _spent((values.get("usage") or {}).get("thread") or {}, seconds, price)


def _spent(counts: Mapping[str, Any], seconds: float, price: Price | None) -> Spent:
    given, written = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    cached = counts.get("cache_read_tokens") or 0
    usd = None
    if price is not None:
        cached_price = price.input if price.cached is None else price.cached
        total = max(given - cached, 0) * price.input + cached * cached_price + written * price.output
        usd = total / _MILLION
    return Spent(
        seconds=round(seconds, 3),
        model_calls=counts.get("model_calls", 0),
        input_tokens=given,
        output_tokens=written,
        cached_tokens=cached,
        usd=usd,
    )
