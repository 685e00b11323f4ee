"""What a run costs: only with prices that the operator gave, in USD per million tokens."""

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage
from msgspec.structs import replace

from skills_agent.evals.cases.trajectory import Spent
from skills_agent.graph.setting_values import Price

IN_PROCESS: Final = frozenset({"offline", "scripted"})
"""Models that answer in this process: they cost nothing, whatever they count."""
_MILLION: Final = 1_000_000


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model; None where the operator gave none."""
    if model.partition(":")[0] in IN_PROCESS:
        return prices.get(model) or Price()
    return prices.get(model)


def priced(spent: Spent, price: Price | None) -> Spent:
    """Return what was spent with its price; it stays unknown without one."""
    if price is None:
        return replace(spent, usd=None)
    cached = price.input if price.cached is None else price.cached
    fresh = max(spent.input_tokens - spent.cached_tokens, 0)
    total = fresh * price.input + spent.cached_tokens * cached + spent.output_tokens * price.output
    return replace(spent, usd=total / _MILLION)


def spent_on(reply: AIMessage, seconds: float, price: Price | None) -> Spent:
    """Return what one reply took, as its provider counts it."""
    usage: Mapping[str, Any] = reply.usage_metadata or {}
    details = usage.get("input_token_details") or {}
    spent = Spent(
        seconds=round(seconds, 3),
        model_calls=1,
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
        cached_tokens=details.get("cache_read", 0) or 0,
    )
    return priced(spent, price)


def spent_of(values: Mapping[str, Any], seconds: float, price: Price | None) -> Spent:
    """Return what a thread took, as its channel `usage` counts it."""
    counts: Mapping[str, int] = (values.get("usage") or {}).get("thread") or {}
    spent = Spent(
        seconds=round(seconds, 3),
        model_calls=counts.get("model_calls", 0),
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=counts.get("cache_read_tokens", 0) or 0,
    )
    return priced(spent, price)
