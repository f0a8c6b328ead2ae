"""The labs: applications of the harness. A lab imports core and labs.training, but no other lab. Core imports no lab.

registry.toml connects a lab to report.sh and plan.sh. Without this folder, the harness still works.
"""
