"""The domain, without a graph."""
