"""Options of commands, and what they print."""
