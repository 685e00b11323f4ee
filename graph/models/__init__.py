"""Chat models: by name from a provider, offline by rules, scripted for tests."""
