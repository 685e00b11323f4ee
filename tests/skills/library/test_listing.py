"""What of the catalog fits into a prompt."""

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.library.catalog import CatalogListing, fit
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources import MemorySource
from skills_agent.skills.text import escape_markup


def skill(name: str, description: str) -> SkillMetadata:
    return SkillMetadata(name, description, "user", f"/{name}/SKILL.md", name, "0" * 64)


def cost(listing: CatalogListing, always: frozenset[str] = frozenset()) -> int:
    """Return the characters of the lines as a prompt shows them."""
    return sum(
        len(f"- {escape_markup(line.skill.name)}: {escape_markup(line.description or '')}\n")
        for line in listing.lines
        if line.skill.name not in always
    )


SKILLS = [
    skill(f"skill-{number}", f"Does thing {number}. Use it when asked for {number}.") for number in range(10)
]


def test_everything_is_whole_while_it_fits() -> None:
    listing = fit(SKILLS, 16_000)

    assert [line.description for line in listing.lines] == [each.description for each in SKILLS]
    assert (listing.omitted, listing.total) == (0, 10)


def test_descriptions_shrink_to_a_sentence_then_to_nothing_from_the_end() -> None:
    whole, first = SKILLS[0].description, "Does thing 0."

    sentences = fit(SKILLS, 10 * 30 + 30)
    names = fit(SKILLS, 10 * 12 + 14)

    assert sentences.lines[0].description == whole
    assert sentences.lines[-1].description == "Does thing 9."
    assert names.lines[0].description == first
    assert names.lines[-1].description is None
    assert sentences.omitted == names.omitted == 0


def test_what_does_not_fit_at_all_is_left_out_and_counted() -> None:
    listing = fit(SKILLS, 100)

    assert 0 < len(listing.lines) < 10
    assert listing.omitted == 10 - len(listing.lines)
    assert [line.skill.name for line in listing.lines] == [each.name for each in SKILLS][: len(listing.lines)]


def test_loaded_skills_are_shown_whole_and_cost_nothing() -> None:
    listing = fit(SKILLS, 0, always={"skill-3", "skill-7"})

    assert [line.skill.name for line in listing.lines] == ["skill-3", "skill-7"]
    assert [line.description for line in listing.lines] == [SKILLS[3].description, SKILLS[7].description]
    assert listing.omitted == 8


def test_a_description_is_one_line() -> None:
    assert fit([skill("a", "one\n\ntwo  three")], 100).lines[0].description == "one two three"


_SKILLS = st.lists(st.text(max_size=80), max_size=12).map(
    lambda texts: [skill(f"skill-{number}", text) for number, text in enumerate(texts)]
)


@given(_SKILLS, st.integers(-10, 1_500), st.sets(st.sampled_from(["skill-0", "skill-3"])))
def test_a_listing_keeps_order_and_budget(skills: list[SkillMetadata], budget: int, always: set[str]) -> None:
    listing = fit(skills, budget, always)

    shown = [line.skill.name for line in listing.lines]
    assert shown == [each.name for each in skills if each.name in set(shown)]
    assert cost(listing, frozenset(always)) <= max(budget, 0)
    assert {each.name for each in skills} & always <= set(shown)
    assert len(shown) + listing.omitted == listing.total == len(skills)
    assert fit(skills, budget, always) == listing


@given(_SKILLS, st.integers(0, 1_500))
def test_more_budget_never_shows_fewer_skills(skills: list[SkillMetadata], budget: int) -> None:
    assert len(fit(skills, budget + 50).lines) >= len(fit(skills, budget).lines)


def test_a_catalog_fits_what_a_model_may_load() -> None:
    def written(name: str, more: str = "") -> dict[str, str | bytes]:
        return {"SKILL.md": f"---\ndescription: Does {name}. And so on.\n{more}---\n"}

    hidden = written("c", "disable-model-invocation: true\n")
    catalog = Registry([MemorySource({"a": written("a"), "b": written("b"), "c": hidden})]).refresh()

    assert [line.skill.name for line in catalog.listing(16_000).lines] == ["a", "b"]
    pinned = catalog.listing(15, ["b"])
    assert [line.description for line in pinned.lines] == ["Does b. And so on.", "Does a."]


def test_a_skill_that_no_model_may_load_takes_no_room() -> None:
    """One of them made every thread's list depend on its request, as if not all had its place."""
    shown = {name: {"SKILL.md": f"---\ndescription: Counts {name}.\n---\n"} for name in ("a", "b")}
    hidden = {"SKILL.md": f"---\ndescription: {'x' * 900}\ndisable-model-invocation: true\n---\n"}
    catalog = Registry([MemorySource({**shown, "hidden": hidden})]).refresh()
    budget = 100

    assert catalog.is_whole(budget)
    names = [line.skill.name for line in catalog.listing(budget, request="count b").lines]
    assert names == ["a", "b"]
