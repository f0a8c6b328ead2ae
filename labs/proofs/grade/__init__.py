"""Grading by a model: `bash scripts/grade.sh NAME|FILE.jsonl GRADER=card`.

Apart from generation: proofs come from results and their journal (stored.py), or from any lines of JSON (lines.py); the
solver's server need not run. What a grader is asked, and how its points are read, is core/grading's.
"""
