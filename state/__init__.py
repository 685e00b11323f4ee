"""What a run remembers: records, reducers, channels, and what a caller may choose."""
