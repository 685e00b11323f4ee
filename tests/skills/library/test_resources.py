"""The files beside a SKILL.md, and parts of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.instructions import heading_lines, section_of
from skills_agent.skills.library.contents import list_resources, resource_type, summarize
from skills_agent.skills.skill import ResourceType


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        ("script", ["scripts/run.py", "Scripts/run.py"]),
        ("reference", ["references/a.md", "reference/a.md", "resources/a.md", "examples/a.md"]),
        ("asset", ["assets/a.png", "templates/a.html"]),
        ("other", ["scripts", "other/scripts/run.py"]),
    ],
)
def test_the_first_folder_says_what_a_file_is(kind: ResourceType, paths: list[str]) -> None:
    assert [resource_type(path) for path in paths] == [kind] * len(paths)


def test_a_long_listing_leaves_out_untyped_files_first_and_counts_them() -> None:
    files = [(f"a{number}.txt", 1) for number in range(10)]
    files += [("scripts/run.py", 1), ("assets/x.png", 1)]

    listing = list_resources(files, limit=3)

    assert [each.path for each in listing.resources] == ["a0.txt", "assets/x.png", "scripts/run.py"]
    assert listing.omitted == 9


def test_a_summary_reads_as_people_say_it() -> None:
    assert summarize([]) == "no resources"
    assert summarize(["script", "script", "reference"]) == "2 scripts, 1 reference"
    assert summarize(["other", "other", "asset", "asset"]) == "2 assets, 2 other files"


GUIDE = """# Guide
Intro.
## Install
Run it.
### On Linux
apt
## Use ##
```
# not a heading
## Install
```
Done.
"""


def test_a_section_goes_up_to_the_next_heading_of_its_level() -> None:
    assert [heading.title for heading in heading_lines(GUIDE)] == ["Guide", "Install", "On Linux", "Use"]
    assert section_of(GUIDE, "install") == "## Install\nRun it.\n### On Linux\napt"
    assert section_of(GUIDE, "## Use") == "## Use ##\n```\n# not a heading\n## Install\n```\nDone."
    assert section_of(GUIDE, "On Linux") == "### On Linux\napt"
    assert section_of(GUIDE, "Missing") is None


@given(st.lists(st.sampled_from(["# A", "## B", "text", "```", "~~~~", "#", "#c", ""])).map("\n".join))
def test_every_section_that_is_listed_can_be_read(text: str) -> None:
    for heading in (heading.title for heading in heading_lines(text)):
        assert section_of(text, heading) is not None
