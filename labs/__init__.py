"""The labs: applications of the harness. A lab may import core, harness and labs.training, but no
other lab. Only labs.demo, which made the bundled models, uses the labs.

The harness loads labs only by registry.toml, for report.sh and plan.sh. Without this folder, the
rest of the harness works.
"""
