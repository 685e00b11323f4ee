"""Pages of HTML that load nothing and run nothing: of threads, and of evals."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(name="pages", pages="skills_agent.pages.thread:write_page")
