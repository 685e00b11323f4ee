"""How a run of evals is told."""
