"""What a thread remembers: records, reducers, channels, and what a caller may choose."""
