"""Finding skills by words and by meaning."""
