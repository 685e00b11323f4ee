"""Packages: fetch skills from where people share them, and keep what is installed as it was shown."""
