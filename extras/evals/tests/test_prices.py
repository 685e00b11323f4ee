"""Money: only with the operator's prices."""

from pathlib import Path

import pytest

from skills_agent.evals.prices import price_of, spent_of
from skills_agent.graph.setting_values import Price
from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.shown_settings import shown_settings


def usd(price: Price | None, **counts: int) -> float | None:
    return spent_of({"usage": {"thread": counts}}, 1.0, price).usd


GIVEN = {"openai:gpt-5-mini": Price(input=0.25, output=2.0, cached=0.025)}


def test_input_that_the_cache_had_costs_its_own_price() -> None:
    assert usd(
        price_of("openai:gpt-5-mini", GIVEN),
        input_tokens=1_000_000,
        cache_read_tokens=400_000,
        output_tokens=100_000,
    ) == pytest.approx(0.15 + 0.01 + 0.2)


def test_without_a_price_of_its_own_cached_input_costs_as_other_input() -> None:
    assert usd(Price(input=2.0), input_tokens=1_000_000, cache_read_tokens=400_000) == 2.0


def test_a_price_that_nobody_gave_is_unknown_and_not_zero() -> None:
    assert usd(price_of("openai:gpt-9", GIVEN), input_tokens=5) is None


@pytest.mark.parametrize("model", ["offline", "scripted", "scripted:replies.json"])
def test_what_answers_in_this_process_costs_nothing(model: str) -> None:
    assert usd(price_of(model, {}), input_tokens=5) == 0


def test_prices_are_a_setting_that_a_strange_workspace_cannot_give(tmp_path: Path) -> None:
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "config.toml").write_text('[prices."openai:gpt-5-mini"]\ninput = 0\n')
    loaded = Settings.load(tmp_path, home=tmp_path / "home", prices={"openai:gpt-5-mini": {"input": 3}})
    assert loaded.prices == {"openai:gpt-5-mini": Price(input=3.0)}
    assert Settings.load(tmp_path, home=tmp_path / "home").prices == {}
    (shown,) = [each.value for each in shown_settings(loaded) if each.name == "prices"]
    assert shown == {"openai:gpt-5-mini": {"input": 3.0, "output": 0.0, "cached": None}}
    with pytest.raises(SettingsError, match="prices"):
        Settings(workspace=tmp_path, prices={"x": {"input": -1}})  # type: ignore[dict-item]
