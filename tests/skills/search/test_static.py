"""The embedding model that a wheel carries: search by meaning without a service and without a network."""

import math
import socket

import pytest

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search import static
from skills_agent.skills.search.static import StaticEmbeddings
from skills_agent.skills.search.vectors import Vectors
from tests.skills.search.test_vectors import found, source

SKILLS = {
    "ledger": "Keeps accounts: bookkeeping, taxes, balance sheets.",
    "garden": "Tends plants: watering, soil, seeds.",
    "sailing": "Plans trips of boats: wind, tides, harbours.",
}


@pytest.mark.parametrize(
    ("request_text", "skill"),
    [
        ("my vegetables and flowers", "garden"),
        ("ships on the ocean", "sailing"),
        ("money and invoices", "ledger"),
    ],
)
def test_a_skill_is_found_that_shares_no_word(
    request_text: str, skill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", None)
    catalog = Registry([source(SKILLS)], vectors=Vectors(StaticEmbeddings())).refresh()
    assert found(Registry([source(SKILLS)]).refresh(), request_text) == []
    assert found(catalog, request_text)[0] == skill


def test_a_long_text_counts_whole_and_an_empty_one_is_zeros() -> None:
    model = StaticEmbeddings()
    short, long = model.embed_documents(["tide", "tide " * 3_000])
    assert math.isclose(math.hypot(*long), 3_000 * math.hypot(*short), rel_tol=0.05)
    assert model.embed_query("") == [0.0] * 256


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"skills-agent\[meaning\]"):
        StaticEmbeddings()
