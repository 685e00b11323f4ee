"""Commands of evals."""
