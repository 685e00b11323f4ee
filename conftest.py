"""The fixtures of all tests: those of the core in tests/, those of a part beside it in extras/."""

pytest_plugins = ["tests.kit", "tests.raw_servers", "tests.judged_prompts"]
