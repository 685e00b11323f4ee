"""The contract of sources, held against the skills of a server of MCP: what the agent itself publishes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from extras.mcp.tests.mcp_skills import serving_skills, source_of
from skills_agent.skills.sources import Source
from tests.contracts import test_source_contract
from tests.contracts.test_source_contract import MakeSource, Tree, as_bytes

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

# Every test of the suite, also those that are written later: they take the fixture of this module.
globals().update(
    {name: test for name, test in vars(test_source_contract).items() if name.startswith("test_")}
)


@pytest.fixture
def make_source(tmp_path: Path) -> Iterator[MakeSource]:
    skills = tmp_path / "skills"
    skills.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(serving_skills(skills))

        def make(tree: Tree) -> Source:
            for name, files in tree.items():
                for relative, content in files.items():
                    path = skills / name / relative
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(as_bytes(content))
            return stack.enter_context(source_of(url, tmp_path))

        yield make
