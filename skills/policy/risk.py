"""How much harm a tool call can do."""

from typing import Final, Literal, get_args

Risk = Literal["read", "run", "write", "network", "delete"]

RISKS: Final[tuple[Risk, ...]] = get_args(Risk)

FRAMEWORK_TOOLS: Final = frozenset(
    {"load_skill", "unload_skill", "search_skills", "read_resource", "update_plan"}
)
"""The tools that make skills work at all: no skill's `allowed-tools` ever shuts them out."""

IN_WORDS: Final[dict[Risk, str]] = {
    "read": "only reads",
    "run": "runs a program",
    "write": "changes files",
    "network": "may reach the network",
    "delete": "deletes files",
}
"""What a tool of that risk does, for the person who is asked."""
