#!/usr/bin/env bash
# Start a server on every NVIDIA GPU of this machine and SGLang Model Gateway in front of them, in the foreground, on port
# 30000 (PORT=… for another); bash scripts/run.sh attaches to it as to a single server. Ctrl-C stops everything.
#   bash scripts/start_fleet.sh                  all GPUs; further flags are passed on to each server
#   bash scripts/start_fleet.sh GPUS=0,1         these GPUs
#   bash scripts/start_fleet.sh --embedded 3     three embedded servers (without a GPU: two, if nothing is said)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
module=core.engines.fleet
bash "$root/setup.sh" fleet
case " $* " in *" --embedded"*) ;; *) bash "$root/setup.sh" ;; esac
run "$@"
