"""Fetching by HTTP: which hosts, at which addresses, through which proxy."""
