"""The cases of the golden files: commands, constants and servers."""

from dataclasses import dataclass

SMALL = ("LIMIT=2", "N=3", "MAX_TOKENS=300")
RSA = (*SMALL, "K=2", "T=2")
RSA_SHORT = (*RSA, "T=1")
LEAN = ("MAX_NODES=8", "NUM_WORKERS=1")
STAR = ("ROUNDS=1", "TRIES=2", "SEEDS=63", "EPOCHS=1")
INPUTS = "tests/golden/inputs"
ITERATION = (
    f"TRAIN_THEOREMS={INPUTS}/learned.json",
    f"THEOREMS={INPUTS}/held_out.json",
    "MAX_ITERATION=0",
    "TRAIN_NODES=8",
    "EPOCHS=1",
    "MAX_NODES=6",
    "HARVEST=2",
    "GO=1",
    "STEPS=10",
    "NUM_WORKERS=1",
    "GUISES=2",
)
ENERGY = (
    f"THEOREMS={INPUTS}/held_out.json",
    "MAX_NODES=12",
    "SEEDS=1",
    "CANDIDATES=2",
    "NUM_WORKERS=1",
)
GRADER = "GRADER=IN/strict.toml"
REPORT = ("report", "--all")
Command = tuple[str, ...]  # an experiment or a script (its name in scripts/), and its arguments


@dataclass(frozen=True)
class Case:
    """`commands` run one after the other on the same results. IN and OUT in their arguments are
    folders of the case.

    server: "embedded", "scripted" or a grader: "grader", "schemes", "filter". inputs: files that
    are copied to IN. resumes: whether a journal of 3b0eb25 is stored. journal_only and records:
    whether the case runs on that alone, and with the records of its rounds or searches. Those of 24
    need trained weights, which are not stored. pins_text: whether printed text, tables and pages
    are pinned, too. Three cases print tables of results. Otherwise a new column would change them
    all.
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
    pins_text: bool = False


def core(name: str, *constants: str, label: str = "", server: str = "embedded") -> Case:
    """Return the case of one experiment and the report of its results."""
    return Case(label or name, ((name, *constants), REPORT), server)


def plan(name: str, *arguments: str, label: str = "") -> Case:
    """Return the case of an experiment's plan on an H100."""
    command = ("plan", name, *arguments)
    return Case(label or f"plan_{name}", (command,), resumes=False, pins_text=True)


PRICED = ("--gpu", "H100", "--price", "2.5")
FEWER = (  # entries of 15, because all of them take 24 s
    "01_greedy",
    "13_best_of_4",
    "02_rsa_basic_4",
    "08_reasoning_cache",
    "09_selfcheck",
    "09_selfcheck_verdict",
    "11_math_agent",
)
MATCHED = ("LIMIT=1", "MAX_TOKENS=300", "BUDGETS=2.5,5.5", f"ENTRIES={','.join(FEWER)}")
RACE = ("LIMIT=2", "MAX_TOKENS=300", "BLOCK=1", "BUDGET=2.5", "ENTRIES=01_greedy,14_refinement")
CARRY_FULL = ("SEED=5", "ORDER=random", "CARRY=full", "TOP_P=0.9")
NOMOS = ("LIMIT=2", "SCAFFOLD=nomos", "N=4", "K=3", "RUNS=1", "MAX_TOKENS=300")
DEEPSEEK = ("LIMIT=1", "SCAFFOLD=deepseek_math", "RUNS=1", "N=3", "MAX_TOKENS=300")
FORCED = ("MAX_TOKENS=60", "ANSWER_TOKENS=30")

EXPERIMENTS = [
    core("01_baseline", *SMALL),
    core("02_rsa_basic", *RSA),
    core("03_rsa_verify", *RSA),
    core("03_rsa_verify", *RSA_SHORT, "SCORE=p_true", "CONCURRENCY=1", label="03_p_true"),
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
    Case("15_compute_matched", (("15_compute_matched", *MATCHED),), pins_text=True),
    core("16_rsa_paper", *RSA),
    core("17_waits", "LIMIT=2", "N=2", "WAITS=2", "MAX_TOKENS=600"),
    core("18_proofs", *RSA_SHORT, "RUNS=2"),
    core("19_answers", *RSA_SHORT, "RUNS=2"),
    Case("28_stepwise", (("28_stepwise", *SMALL), REPORT), resumes=False),
    Case("27_race", (("27_race", *RACE),)),
]

BEYOND_THE_DEFAULTS = [
    core("02_rsa_basic", *RSA_SHORT, "RUNS=2", label="02_runs"),
    core("02_rsa_basic", *RSA_SHORT, *CARRY_FULL, label="02_carry_full"),
    core("02_rsa_basic", *RSA_SHORT, *FORCED, label="02_forced"),
    core("01_baseline", *SMALL, "MAX_TOKENS=60", "ANSWER_TOKENS=0", label="01_cut"),
    core("19_answers", *NOMOS, label="19_nomos"),
    core("18_proofs", *DEEPSEEK, label="18_deepseek_math"),
    core("02_rsa_basic", *RSA, "PROBLEMS=sums", label="02_scripted", server="scripted"),
    core("07_nomos", *SMALL, "K=3", "PROBLEMS=sums", label="07_scripted", server="scripted"),
    core("11_math_agent", "LIMIT=1", "PROBLEMS=sums", label="11_scripted", server="scripted"),
]

SCRIPTS = [
    Case(
        "compare",
        (
            ("01_baseline", *SMALL),
            ("02_rsa_basic", *RSA),
            ("compare", "01", "02"),
            REPORT,
            ("regrade", "02_rsa_basic"),
        ),
        pins_text=True,
    ),
    Case(
        "merge",
        (
            ("02_rsa_basic", *RSA_SHORT),
            ("RESULTS_DIR=IN/other", "02_rsa_basic", *RSA_SHORT, "SEED=1"),
            ("merge", "mean", "02_rsa_basic", "IN/other/02_rsa_basic.json"),
        ),
        resumes=False,
    ),
    Case(
        "jsonl",
        (
            ("02_rsa_basic", *RSA_SHORT),
            ("report", "02_rsa_basic", "--jsonl", "OUT/02.jsonl"),
        ),
    ),
]

PLANS = [
    plan("02_rsa_basic", "N=2,3", "K=2,3", "T=1,2", *PRICED, label="plan_sweep"),
    plan("01_baseline", *PRICED),
    plan("02_rsa_basic", *PRICED),
    plan("03_rsa_verify", *PRICED),
    plan("04_rsa_adaptive", *PRICED),
    plan("05_rsa_qed", *PRICED),
    plan("06_deepseek_math", *PRICED),
    plan("07_nomos", *PRICED),
    plan("08_reasoning_cache", *PRICED),
    plan("09_selfcheck", *PRICED),
    plan("10_static_math_agent", *PRICED),
    plan("11_math_agent", *PRICED),
    plan("12_majority", *PRICED),
    plan("13_best_of", *PRICED),
    plan("14_refinement", *PRICED),
    plan("15_compute_matched", *PRICED),
    plan("16_rsa_paper", *PRICED),
    plan("17_waits", *PRICED),
    plan("18_proofs", *PRICED),
    plan("19_answers", *PRICED),
    plan("27_race", *PRICED),
]

CORE = [*EXPERIMENTS, *BEYOND_THE_DEFAULTS, *SCRIPTS, *PLANS]

LEAN_BASELINE = ("23_lean_baseline", f"THEOREMS={INPUTS}/theorems.json", *LEAN)
LEAN_ITERATION = ("24_lean_iteration", *ITERATION)
LEAN_ENERGY = ("26_lean_energy", *ENERGY)
LEAN_ALL = ("25_lean_all", "SMOKE=1", "MAX_ITERATION=0", "NUM_WORKERS=1", "ENERGY=0")
CONTROLS = ("22_star_controls", "ARMS=no_filter", "RUNS=1", "LIMIT=4", *STAR)
# with this seed, the rows have aggregations of 0, 1 and 2 right candidates
LEARN = ("LIMIT=6", "N=3", "K=2", "T=1", "ROUNDS=1", "EPOCHS=1", "MAX_TOKENS=400", "SEED=1")
PLAIN_PROOFS = ("LIMIT=2", "SCAFFOLD=baseline", "N=2", "RUNS=2", "MAX_TOKENS=300")

LABS = [
    Case("20_grader", (("20_grader", "LIMIT=2", "PROMPTS=guidelines"),)),
    Case(
        "20_people",
        (("20_grader", GRADER, "GRADED=IN/people.json"),),
        server="grader",
        inputs=("people.json",),
    ),
    Case(
        "21_star",
        (("21_star", "LIMIT=6", *STAR), ("report", "21_star")),
        trains=True,
    ),
    Case(
        "22_star_controls",
        (CONTROLS, ("report", "22_star_controls")),
        trains=True,
        journal_only=False,
    ),
    Case(
        "29_learn_to_aggregate",
        (("29_learn_to_aggregate", *LEARN), ("report", "29_learn_to_aggregate")),
        trains=True,
    ),
    Case("23_lean_baseline", (LEAN_BASELINE, ("report", "lean")), lean=True),
    Case(
        "24_lean_iteration",
        (LEAN_ITERATION, ("report", "lean"), LEAN_ENERGY),
        trains=True,
        lean=True,
        records=False,
    ),
    Case("25_lean_all", (LEAN_ALL,), trains=True, lean=True, resumes=False),
    Case(
        "grade_run",
        (("18_proofs", *PLAIN_PROOFS), ("grade", "18_proofs", GRADER), REPORT),
        server="grader",
        pins_text=True,
    ),
    Case(
        "grade_lines",
        (("grade", "IN/proofs.jsonl", GRADER, "GRADES=2"),),
        server="grader",
        inputs=("proofs.jsonl",),
    ),
    Case(
        "schemes",
        (("schemes", "IN/rows.jsonl", GRADER),),
        server="schemes",
        inputs=("rows.jsonl",),
        pins_text=True,
    ),
    Case(
        "filter",
        (("filter", "IN/rows.jsonl", GRADER),),
        server="filter",
        inputs=("rows.jsonl",),
        pins_text=True,
    ),
    Case(
        "serve_rsa",
        (("serve_rsa", "N=4", "K=2", "T=1", "MAX_TOKENS=300"),),
        resumes=False,
        pins_text=True,
    ),
    Case(
        "check_traces",
        (("check_traces", "IN/traces.jsonl", "--kept", "OUT/kept.jsonl"),),
        inputs=("traces.jsonl",),
        resumes=False,
        pins_text=True,
    ),
    plan("20_grader", "--gpu", "H100"),
    plan("21_star", "--gpu", "H100"),
    plan("22_star_controls", "--gpu", "H100"),
    plan("29_learn_to_aggregate", "--gpu", "H100"),
    plan("23_lean_baseline", "--gpu", "H100"),
    plan("24_lean_iteration", "--gpu", "H100"),
    plan("25_lean_all", "--gpu", "H100"),
    plan("26_lean_energy", "--gpu", "H100"),
]
