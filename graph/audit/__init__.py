"""The record of every run: what was asked, judged, approved and done, in lines chained by hash."""
