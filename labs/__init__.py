"""What is built on the harness. A lab imports core and labs.training, and no other lab; core imports none.

registry.toml joins a lab to report.sh and plan.sh. Delete this folder, and the harness works without it.
"""
