"""Eval cases read, checked and summed up; nothing runs a model."""
