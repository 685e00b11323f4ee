"""The offline model: rules that do with a skill what rules can; no language model."""
