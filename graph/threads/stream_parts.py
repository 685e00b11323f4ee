"""What a stream yields beside what LangGraph streams, in the form that its options ask for.

The forms are LangGraph's documented ones: by mode, with subgraphs, version 2.
"""

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph


def values_parts(
    graph: CompiledStateGraph[Any, Any, Any, Any], values: Mapping[str, Any], options: Mapping[str, Any]
) -> list[Any]:
    """Return what is yielded of a state where nothing runs."""
    keys = options.get("output_keys") or graph.stream_channels_asis
    chosen = (
        values.get(keys) if isinstance(keys, str) else {key: values[key] for key in keys if key in values}
    )
    return parts_of(graph, "values", chosen, options)


def parts_of(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    mode: Literal["values", "custom"],
    content: object,
    options: Mapping[str, Any],
) -> list[Any]:
    """Return what is yielded of something that no step of the graph tells."""
    modes = options.get("stream_mode") or graph.stream_mode
    if mode not in ([modes] if isinstance(modes, str) else modes):
        return []
    if options.get("version") == "v2":
        more = {"interrupts": ()} if mode == "values" else {}
        return [{"type": mode, "ns": (), "data": content, **more}]
    head: tuple[Any, ...] = ((),) if options.get("subgraphs") else ()
    head = (*head, mode) if isinstance(modes, list) else head
    return [(*head, content) if head else content]
