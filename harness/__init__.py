"""Run experiments with core: problem sets, scaffolds, sessions, results, reports and plans."""
