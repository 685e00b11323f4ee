"""Which skills there are, and their files."""
