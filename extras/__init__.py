"""The parts that can be taken away. It is a package for pytest, which else takes extras/mcp for the SDK."""
