"""MCP servers that the settings name, and their tools."""
