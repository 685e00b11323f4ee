"""Commands of needs."""
