"""Pages of the web, for the model: the tool `fetch_url`."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(name="web", tools="skills_agent.web.tools:tools_of")
