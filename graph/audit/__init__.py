"""The record of every run: who asked what, and what was judged, approved and done."""
