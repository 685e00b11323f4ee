"""Running a skill's scripts: one protocol, an interpreter for every script, and the runners."""
