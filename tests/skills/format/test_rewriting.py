"""Another description is put into a SKILL.md, and every other byte stays."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.frontmatter import split
from skills_agent.skills.format.rewriting import NotRewrittenError, with_description
from skills_agent.skills.format.rules import FrontmatterError

BODY = "---\n\n# Title\n\ndescription: of the body\n"


def rewritten(frontmatter: str, description: str = 'New: "text" # it') -> str:
    raw = f"---\n{frontmatter}{BODY}".encode()
    return with_description(raw, description).decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "name: a\ndescription: old # why\nlicense: MIT\n",
            "name: a\ndescription: NEW # why\nlicense: MIT\n",
        ),
        ("description: |\n  old\n  lines\n\nname: a\n", "description: NEW\n\nname: a\n"),
        ("description: >-\n  old\n  lines\nname: a\n", "description: NEW\nname: a\n"),
        ("name: a\ndescription: 'old\n  lines'\n", "name: a\ndescription: NEW\n"),
        ("name: a\ndescription:\n  old\n  lines\n", "name: a\ndescription:\n  NEW\n"),
        (
            "name: a\r\ndescription: old\r\nlicense: MIT\r\n",
            "name: a\r\ndescription: NEW\r\nlicense: MIT\r\n",
        ),
        ("{name: a, description: old}\n", "{name: a, description: NEW}\n"),
    ],
)
def test_only_the_description_changes(before: str, after: str) -> None:
    assert rewritten(before) == f"---\n{after}{BODY}".replace("NEW", '"New: \\"text\\" # it"')


@pytest.mark.parametrize(
    "frontmatter",
    [
        "name: a\n",
        "- description\n",
        "description: [a]\n",
        "description: a\ndescription: b\n",
        "name: &x a\ndescription: *x\nother: *x\n",
        "description: &x a\nother: *x\n",
        "description: a: b\n",
    ],
)
def test_what_a_program_cannot_replace_stays(frontmatter: str) -> None:
    with pytest.raises(NotRewrittenError):
        rewritten(frontmatter)


@given(st.text(min_size=1))
def test_any_text_is_read_again_as_it_is(text: str) -> None:
    raw = f"---\nname: a\ndescription: old\n{BODY}".encode()
    try:
        changed = with_description(raw, text)
    except NotRewrittenError:
        assert any(0xD800 <= ord(each) <= 0xDFFF for each in text)
        return
    fields = yaml.safe_load(split(changed).frontmatter)
    assert fields == {"name": "a", "description": text}
    assert changed.endswith(BODY.encode())


def test_a_file_without_frontmatter_is_refused() -> None:
    with pytest.raises(FrontmatterError):
        with_description(b"# Title\n", "x")
