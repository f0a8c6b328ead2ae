"""Grading by a model, without the solver's server: `bash scripts/grade.sh`, and the trial of a grader."""
