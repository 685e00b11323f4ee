"""Commands of MCP."""
