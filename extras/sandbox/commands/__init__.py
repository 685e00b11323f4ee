"""Commands of the sandbox."""
