#!/usr/bin/env bash
# Run an experiment on a Slurm cluster: a job array of servers (one GPU each, TP GPUs, or none), and a job that runs the experiment on them.
# This job cancels the servers at its end. Run this script on a login node, in a checkout that all nodes see:
#   export API_KEY=$(openssl rand -hex 24)     the servers listen on their nodes' addresses, but others must not use them
#   srun --gres=gpu:1 bash setup.sh            once: SGLang and the weights
#   SERVERS=4 bash scripts/slurm/submit.sh 02_rsa_basic [NAME=value …]
#   SERVERS=4 bash scripts/slurm/submit.sh 18_proofs [NAME=value …] GRADER=card [GRADES=3 MAX_DOLLARS=5 …]
# GRADER= and all words after it go to scripts/grade.sh (but not for 20_grader), which runs as a separate job if the run
# succeeds. A grader on GPUs gets its own servers then (GRADER_SERVERS, default SERVERS). Other graders need none.
# Put options of your cluster into SERVERS_OPTIONS and EXPERIMENT_OPTIONS, for instance "--partition=gpu --account=me". If a
# grader's servers need other options, set GRADER_OPTIONS.
# RESULTS_DIR (default ./results) must be on a disk that all nodes see. A server of llama.cpp (ENGINE=embedded) gets no GPU.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
cd "$root"

# gpus ENGINE: prints the option for a server's GPUs, which precedes the user's options.
gpus() {
  case $1 in
    embedded | llamacpp) ;;
    *) echo "--gres=gpu:${TP:-1}" ;;
  esac
}

[ $# -gt 0 ] ||
  fail "name an experiment: bash scripts/slurm/submit.sh 02_rsa_basic [NAME=value …]"
compgen -G "experiments/$1*.py" >/dev/null ||
  fail "no experiment '$1'. 'bash scripts/run.sh' lists them"
[ -n "${API_KEY:-}" ] ||
  fail "API_KEY is not set, but the servers are open to the network. Set it: export" \
    "API_KEY=\$(openssl rand -hex 24)"
servers=${SERVERS:-2}
[[ $servers =~ ^[1-9][0-9]?$ && $servers -le 64 ]] ||
  fail "SERVERS=$servers is out of range. Give a number from 1 to 64"
[[ ${TP:-1} =~ ^[1-9][0-9]?$ ]] ||
  fail "TP=$TP is no number of GPUs. Give a number from 1 to 16"
command -v sbatch >/dev/null ||
  fail "there is no sbatch here. Run this on a login node of a Slurm cluster"

# The words before GRADER= belong to the run. An experiment with a constant GRADER grades by itself.
matches=(experiments/"$1"*.py)
file=${matches[0]}
name=$(basename "$file" .py)
grades_itself=
if grep -q '^GRADER = ' "$file"; then grades_itself=yes; fi
run=("$1")
results=
shift
while [ $# -gt 0 ]; do
  if [[ $1 == GRADER=* ]] && [ -z "$grades_itself" ]; then break; fi
  if [[ $1 == OUT=* ]]; then results=${1#OUT=}; fi
  run+=("$1")
  shift
done
graders=${GRADER_SERVERS:-}
[[ -z $graders || ($graders =~ ^[1-9][0-9]?$ && $graders -le 64) ]] ||
  fail "GRADER_SERVERS=$graders is out of range. Give a number from 1 to 64"

bash setup.sh fleet
engine=$(PYTHONPATH=$root .venv/bin/python -m core.engines.environment) || exit 2
if [ $# -gt 0 ]; then
  need=$(PYTHONPATH=$root .venv/bin/python -m core.engines.environment "${1#GRADER=}") || exit 2
  case $need in
    http*)
      [ -z "$graders" ] ||
        fail "GRADER_SERVERS=$graders has no effect, because $1 is served at $need. Unset" \
          "GRADER_SERVERS"
      graders=0 ;;
    embedded | llamacpp) graders=${graders:-0} ;;  # the grading serves it in its own process
    *) graders=${graders:-$servers} ;;
  esac
fi
export RESULTS_DIR=${RESULTS_DIR:-$root/results}
mkdir -p "$RESULTS_DIR/fleet"
graders_options=${GRADER_OPTIONS:-${SERVERS_OPTIONS:-}}
SERVERS_OPTIONS="$(gpus "$engine") ${SERVERS_OPTIONS:-}"
export SERVERS_OPTIONS  # experiment.sbatch may submit the servers again
read -ra servers_options <<<"$SERVERS_OPTIONS"
read -ra experiment_options <<<"${EXPERIMENT_OPTIONS:-}"
common=(--parsable --chdir="$root" --export=ALL)  # ALL: keys travel in the environment, not on a command line

array=$(sbatch "${common[@]}" --array="0-$((servers - 1))" \
  --output="$RESULTS_DIR/fleet/slurm-%A_%a.log" "${servers_options[@]}" \
  scripts/slurm/servers.sbatch)
array=${array%%;*}  # a federation prints id;cluster
job=$(sbatch "${common[@]}" --dependency="after:$array" \
  --output="$RESULTS_DIR/fleet/slurm-%j.log" "${experiment_options[@]}" \
  scripts/slurm/experiment.sbatch "$array" "$servers" bash scripts/run.sh "${run[@]}") || {
  scancel "$array"
  fail "the experiment could not be submitted (see above). Its servers are cancelled"
}
job=${job%%;*}
jobs="$job $array"
echo "servers: job array $array. $name: job $job, which starts after the servers. Logs:" \
  "$RESULTS_DIR/fleet/slurm-*.log"

if [ $# -gt 0 ]; then
  words=("$@")
  changes=()
  if [ "$graders" -gt 0 ]; then  # MODEL names the model for its servers and their gateway
    words=("${@:2}")
    changes=(-u BASE_URL -u GRADER_URL -u GRADER_MODEL ENGINE="$need" MODEL="${1#GRADER=}")
    changes+=(SERVERS_OPTIONS="$(gpus "$need") $graders_options")
  fi
  grading=$(env "${changes[@]}" sbatch "${common[@]}" \
    --dependency="afterok:$job" --kill-on-invalid-dep=yes --job-name=qed-rsa-grading \
    --output="$RESULTS_DIR/fleet/slurm-%j.log" "${experiment_options[@]}" \
    scripts/slurm/experiment.sbatch own "$graders" \
    bash scripts/grade.sh "${results:-$name}" "${words[@]}") || {
    scancel "$job"
    scancel "$array"
    fail "the grading could not be submitted (see above). The run is cancelled"
  }
  grading=${grading%%;*}
  jobs="$grading $jobs"
  echo "grading: job $grading, which starts if $name succeeds, on ${graders/#0/no} servers of its own"
fi
echo "to stop: scancel $jobs"
