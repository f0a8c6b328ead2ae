"""The labs: applications of the harness. A lab may import core and labs.training, but no other lab.

Core loads labs only by registry.toml, for report.sh and plan.sh. Without this folder, the rest of
the harness works.
"""
