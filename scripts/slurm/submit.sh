#!/usr/bin/env bash
# Run an experiment on a Slurm cluster: a job array of servers, one GPU each, and a job that runs the experiment on them
# and cancels them when it ends. Run it on a login node, in a checkout that all nodes see:
#   export API_KEY=$(openssl rand -hex 24)     the servers listen on their nodes' addresses: others must not use them
#   srun --gres=gpu:1 bash setup.sh            once: SGLang and the weights
#   SERVERS=4 bash scripts/slurm/submit.sh 02_rsa_basic [NAME=value …]
# Options of your cluster go into SERVERS_OPTIONS and EXPERIMENT_OPTIONS, for instance "--partition=gpu --account=me".
# RESULTS_DIR (default ./results) must be on a disk that all nodes see. ENGINE=embedded needs no GPU.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
cd "$root"
fail() { echo "error: $*" >&2; exit 2; }

[ $# -gt 0 ] || fail "name an experiment: bash scripts/slurm/submit.sh 02_rsa_basic [NAME=value …]"
compgen -G "experiments/$1*.py" >/dev/null || fail "no experiment '$1'. 'bash scripts/run.sh' lists them"
[ -n "${API_KEY:-}" ] || fail "API_KEY is not set, and the servers are open to the network: export API_KEY=\$(openssl rand -hex 24)"
servers=${SERVERS:-2}
[[ $servers =~ ^[1-9][0-9]?$ && $servers -le 64 ]] || fail "SERVERS=$servers is not a number from 1 to 64"
command -v sbatch >/dev/null || fail "there is no sbatch here. Run this on a login node of a Slurm cluster"

bash setup.sh fleet
export RESULTS_DIR=${RESULTS_DIR:-$root/results}
mkdir -p "$RESULTS_DIR/fleet"
read -ra servers_options <<<"${SERVERS_OPTIONS:-}"
read -ra experiment_options <<<"${EXPERIMENT_OPTIONS:-}"
common=(--parsable --chdir="$root" --export=ALL)  # ALL: keys travel in the environment, not on a command line

array=$(sbatch "${common[@]}" --array="0-$((servers - 1))" --output="$RESULTS_DIR/fleet/slurm-%A_%a.log" \
  "${servers_options[@]}" scripts/slurm/servers.sbatch)
array=${array%%;*}  # on a federation: id;cluster
job=$(sbatch "${common[@]}" --dependency="after:$array" --output="$RESULTS_DIR/fleet/slurm-%j.log" \
  "${experiment_options[@]}" scripts/slurm/experiment.sbatch "$array" "$servers" "$@") || {
  scancel "$array"; fail "the experiment could not be submitted (see above); its servers are cancelled"; }
job=${job%%;*}
echo "servers: job array $array; $1: job $job, which starts when they run; logs: $RESULTS_DIR/fleet/slurm-*.log"
echo "to stop: scancel $job $array"
