"""The cases of the golden files: commands, constants and servers."""

from dataclasses import dataclass

SMALL = ("LIMIT=2", "N=3", "MAX_TOKENS=300")
RSA = (*SMALL, "K=2", "T=2")
LEAN = ("MAX_NODES=8", "NUM_WORKERS=1")
INPUTS = "tests/golden/inputs"
ITERATION = (
    f"TRAIN_THEOREMS={INPUTS}/learned.json", f"THEOREMS={INPUTS}/held_out.json", (
        "MAX_ITERATION=0"
    ), (
        "TRAIN_NODES=8"
    ),
    "EPOCHS=1", "MAX_NODES=6", "HARVEST=2", "GO=1", "STEPS=10", "NUM_WORKERS=1", "GUISES=2",
)  # fmt: skip
REPORT = ("report",)
Command = tuple[str, ...]  # an experiment or a script (its name in scripts/), and its arguments


@dataclass(frozen=True)
class Case:
    """`commands` run one after the other on the same results. IN and OUT in their arguments are
    folders of the case.

    server: "embedded", "scripted" or a grader: "grader", "schemes", "filter". inputs: files that
    are copied to IN. resumes: whether a journal of 3b0eb25 is stored; `journal_only`, `records`:
    whether the case runs on that alone,
        and with the records of its rounds or searches. Those of 24 need trained weights, which are
        not stored.
    """

    name: str
    commands: tuple[Command, ...]
    server: str = "embedded"
    inputs: tuple[str, ...] = ()
    trains: bool = False
    lean: bool = False
    resumes: bool = True
    journal_only: bool = True
    records: bool = True


def core(name: str, *constants: str, label: str = "", server: str = "embedded") -> Case:
    """Return the case of one experiment and the report of its results."""
    return Case(label or name, ((name, *constants), REPORT), server)


GRADER = "GRADER=IN/strict.toml"
FEWER = (  # of 15: all entries take 24 s
    "BUDGETS=2.5,5.5",
    "ENTRIES=01_greedy,13_best_of_4,02_rsa_basic_4,08_reasoning_cache,09_selfcheck,09_selfcheck_verdict,11_math_agent",
)  # fmt: skip
CORE = [
    core("01_baseline", *SMALL),
    core("02_rsa_basic", *RSA),
    core("03_rsa_verify", *RSA),
    core("03_rsa_verify", *RSA, "T=1", "VERIFY_MODE=p_true", "CONCURRENCY=1", label="03_p_true"),
    core("04_rsa_adaptive", *RSA),
    core("05_rsa_qed", *SMALL, "LIMIT=1"),
    core("06_deepseek_math", *SMALL, "LIMIT=1"),
    core("07_nomos", *SMALL, "K=3"),
    core("08_reasoning_cache", "LIMIT=2", "MAX_TOKENS=300"),
    core("09_selfcheck", "LIMIT=1", "MAX_TOKENS=300"),
    core("10_static_math_agent", "LIMIT=1", "MAX_TOKENS=300"),
    core("11_math_agent", "LIMIT=1", "MAX_TOKENS=300"),
    core("12_majority", "LIMIT=2", "N=8", "MAX_TOKENS=300"),
    core("13_best_of", *SMALL),
    core("14_refinement", "LIMIT=2", "MAX_TOKENS=300"),
    Case("15_compute_matched", (("15_compute_matched", "LIMIT=1", "MAX_TOKENS=300", *FEWER),)),
    core("16_rsa_paper", *RSA),
    core("17_waits", "LIMIT=2", "N=2", "WAITS=2", "MAX_TOKENS=600"),
    core("18_proofs", *RSA, "T=1", "RUNS=2"),
    core("19_answers", *RSA, "T=1", "RUNS=2"),
    Case("28_stepwise", (("28_stepwise", *SMALL), REPORT), resumes=False),
    Case("27_race", (("27_race", "LIMIT=2", "MAX_TOKENS=300", "BLOCK=1", "BUDGET=2.5",
                      "ENTRIES=01_greedy,14_refinement"),)),
    # Beyond the defaults.
    core("02_rsa_basic", *RSA, "T=1", "RUNS=2", label="02_runs"),
    core("02_rsa_basic", *RSA, "T=1", "SEED=5", "ORDER=random", "CARRY=full", "TOP_P=0.9", label=(
        "02_carry_full"
    )),
    core("02_rsa_basic", *RSA, "T=1", "MAX_TOKENS=60", "ANSWER_TOKENS=30", label="02_forced"),
    core("01_baseline", *SMALL, "MAX_TOKENS=60", "ANSWER_TOKENS=0", label="01_cut"),
    core("19_answers", "LIMIT=2", "SCAFFOLD=nomos", "N=4", "K=3", "RUNS=1", "MAX_TOKENS=300", label=(
        "19_nomos"
    )),
    core("18_proofs", "LIMIT=1", "SCAFFOLD=deepseek_math", "RUNS=1", "N=3", "MAX_TOKENS=300", label=(
        "18_deepseek_math"
    )),
    core("02_rsa_basic", *RSA, "PROBLEMS=sums", label="02_scripted", server="scripted"),
    core("07_nomos", *SMALL, "K=3", "PROBLEMS=sums", label="07_scripted", server="scripted"),
    core("11_math_agent", "LIMIT=1", "PROBLEMS=sums", label="11_scripted", server="scripted"),
    Case("compare", (("01_baseline", *SMALL), ("02_rsa_basic", *RSA), ("compare", "01", "02"), ((
        "report"
    ),),
                     ("regrade", "02_rsa_basic"))),
    Case("merge", (("02_rsa_basic", *RSA, "T=1"), ("RESULTS_DIR=IN/other", "02_rsa_basic", *RSA, (
        "T=1"
    ), (
        "SEED=1"
    )),
                   ("merge", "mean", "02_rsa_basic", "IN/other/02_rsa_basic.json")),
         resumes=False),
    Case("jsonl", (("02_rsa_basic", *RSA, "T=1"), ("report", "02_rsa_basic", "--jsonl", (
        "OUT/02.jsonl"
    )))),
    Case("plan_sweep", (("plan", "02_rsa_basic", "N=2,3", "K=2,3", "T=1,2", "--gpu", "H100", (
        "--price"
    ), (
        "2.5"
    )),),
         resumes=False),
    *(Case(f"plan_{name}", (("plan", name, "--gpu", "H100", "--price", "2.5"),), resumes=False) for name in (
        "01_baseline", "02_rsa_basic", "03_rsa_verify", "04_rsa_adaptive", "05_rsa_qed", (
            "06_deepseek_math"
        ),
        "07_nomos", "08_reasoning_cache", "09_selfcheck", "10_static_math_agent", "11_math_agent", (
            "12_majority"
        ),
        "13_best_of", "14_refinement", "15_compute_matched", "16_rsa_paper", "17_waits", (
            "18_proofs"
        ), (
            "19_answers"
        ),
        "27_race",
    )),
]  # fmt: skip

LABS = [
    Case("20_grader", (("20_grader", "LIMIT=2", "PROMPTS=guidelines"),)),
    Case("20_people", (("20_grader", GRADER, "GRADED=IN/people.json"),), "grader", ("people.json",)),
    Case("21_star", (("21_star", "LIMIT=6", "ROUNDS=1", "TRIES=2", "SEEDS=63", "EPOCHS=1"), ((
        "report"
    ), (
        "21_star"
    ))),
         trains=True),
    Case("22_star_controls", (("22_star_controls", "ARMS=no_filter", "RUNS=1", "LIMIT=4", (
        "ROUNDS=1"
    ), (
        "TRIES=2"
    ),
                               "SEEDS=63", "EPOCHS=1"), ("report", "22_star_controls")), trains=True,
         journal_only=False),
    Case("23_lean_baseline", (("23_lean_baseline", f"THEOREMS={INPUTS}/theorems.json", *LEAN), ((
        "report"
    ), (
        "lean"
    ))),
         lean=True),
    Case("24_lean_iteration", (("24_lean_iteration", *ITERATION), ("report", "lean"),
         ("26_lean_energy", f"THEOREMS={INPUTS}/held_out.json", "MAX_NODES=12", "SEEDS=1", (
             "CANDIDATES=2"
         ),
          "NUM_WORKERS=1")), trains=True, lean=True,
         records=False),
    Case("25_lean_all", (("25_lean_all", "SMOKE=1", "MAX_ITERATION=0", "NUM_WORKERS=1", "ENERGY=0"),), trains=True,
         lean=True, resumes=False),
    Case("grade_run", (("18_proofs", "LIMIT=2", "SCAFFOLD=baseline", "N=2", "RUNS=2", (
        "MAX_TOKENS=300"
    )),
                       ("grade", "18_proofs", GRADER), REPORT), "grader"),
    Case("grade_lines", (("grade", "IN/proofs.jsonl", GRADER, "GRADES=2"),), "grader", ((
        "proofs.jsonl"
    ),)),
    Case("schemes", (("schemes", "IN/rows.jsonl", GRADER),), "schemes", ("rows.jsonl",)),
    Case("filter", (("filter", "IN/rows.jsonl", GRADER),), "filter", ("rows.jsonl",)),
    Case("serve_rsa", (("serve_rsa", "N=4", "K=2", "T=1", "MAX_TOKENS=300"),), resumes=False),
    Case("check_traces", (("check_traces", "IN/traces.jsonl", "--kept", "OUT/kept.jsonl"),), inputs=((
        "traces.jsonl"
    ),),
         resumes=False),
    *(Case(f"plan_{name}", (("plan", name, "--gpu", "H100"),), resumes=False) for name in (
        "20_grader", "21_star", "22_star_controls", "23_lean_baseline", "24_lean_iteration", (
            "25_lean_all"
        ),
        "26_lean_energy",
    )),
]  # fmt: skip
