"""A server's tool as a LangChain tool, and its result as the content of a tool message."""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Final

from langchain_core.tools import BaseTool, ToolException
from typing_extensions import override

from skills_agent.graph.tools.content import image_content, image_type
from skills_agent.mcp.definitions import ToolDefinition
from skills_agent.mcp.servers import McpServerError
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.state.whole_text import whole_text

LOOKOUT_SECONDS: Final = 0.1
"""Between two looks whether a call that blocks is still wanted."""
MAX_BLOCKS: Final = 200
"""Parts of a result that are read."""

Start = Callable[[Mapping[str, Any]], "Future[Any]"]


def mcp_tool(
    definition: ToolDefinition, start: Start, cancellation: Callable[[], Cancellation], *, images: bool
) -> BaseTool:
    """Return a server's tool, whose calls `start` begins. With `images`, the model is shown images."""
    return _McpTool(
        name=definition.name,
        description=definition.description,
        args_schema=definition.schema,
        metadata={"spec": ToolSpec(name=definition.name, risk=definition.risk)},
        handle_tool_error=True,
        start=start,
        cancellation=cancellation,
        content=partial(result_content, images=images),
    )


class _McpTool(BaseTool):
    """Takes arguments of any name: those that a StructuredTool needs for itself would hide a server's."""

    start: Start
    cancellation: Callable[[], Cancellation]
    content: Callable[[Any], str | list[Any]]

    @override
    def _run(self, /, *_: Any, **arguments: Any) -> Any:
        call, cancellation = self.start(arguments), self.cancellation()
        while True:
            try:
                return self._result(call, LOOKOUT_SECONDS)
            except TimeoutError:
                if cancellation.is_requested:
                    call.cancel()

    @override
    async def _arun(self, /, *_: Any, **arguments: Any) -> Any:
        call = self.start(arguments)
        try:
            await asyncio.wrap_future(call)
        except McpServerError as error:
            raise ToolException(str(error)) from error
        return self._result(call, None)

    def _result(self, call: "Future[Any]", seconds: float | None) -> str | list[Any]:
        try:
            return self.content(call.result(seconds))
        except McpServerError as error:
            raise ToolException(str(error)) from error
        except CancelledError as error:
            text = "Outcome unknown: it was stopped; what it did until then is done."
            raise ToolException(text) from error


def result_content(result: Any, *, images: bool) -> str | list[Any]:
    """Return what a model reads of a result (MCP's CallToolResult): text, and images where it is shown these.

    Raises ToolException for a result that the server calls an error.
    """
    blocks = result.content[:MAX_BLOCKS]
    parts = [part for block in blocks for part in _parts(block, images=images)]
    if not parts and result.structured_content is not None:
        parts = [_text_part(json.dumps(result.structured_content, ensure_ascii=False))]
    if len(result.content) > MAX_BLOCKS:
        parts.append(_text_part(f"[{len(result.content) - MAX_BLOCKS:,} more parts left out]"))
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if result.is_error:
        raise ToolException("\n".join(texts) or "The server says that it failed, and not why.")
    if len(texts) < len(parts):
        return parts
    return "\n".join(texts) or "Done; the server returned nothing."


def _parts(block: Any, *, images: bool) -> list[dict[str, Any]]:
    match block.type:
        case "text":
            return [_text_part(block.text)]
        case "image":
            return _image_parts(block.data, images=images)
        case "resource_link":
            return [_text_part(f"[resource {block.name}: {block.uri}]")]
        case "resource" if hasattr(block.resource, "text"):
            return [_text_part(f"[resource {block.resource.uri}]\n{block.resource.text}")]
        case "resource":
            size = len(block.resource.blob) * 3 // 4
            return [
                _text_part(f"[resource {block.resource.uri}: {size:,} bytes left out, which are no text]")
            ]
    return [_text_part(f"[{block.type} left out: it is no text]")]


def _image_parts(data: str, *, images: bool) -> list[dict[str, Any]]:
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    kind = image_type(raw)
    if kind is None:
        return [_text_part("[an image of a kind that no model takes left out]")]
    if not images:
        return [_text_part(f"[{kind} of {len(raw):,} bytes left out: read_images is off]")]
    try:
        return image_content("image", raw, kind)
    except ToolException as error:
        return [_text_part(f"[{error}]")]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": whole_text(text)}
