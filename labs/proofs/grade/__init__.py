"""Grading by a model, apart from generation: `bash scripts/grade.sh NAME|FILE.jsonl GRADER=card`, and the trial of a
grader. Proofs come from results and their journal (stored.py), or from any lines of JSON (lines.py); the solver's
server need not run.
"""
