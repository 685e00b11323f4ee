"""Conversations that are kept."""
