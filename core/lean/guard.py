"""What a tactic may be before Lean sees it: it is text from a model, and hostile until shown otherwise.

Lean runs code while it elaborates (`#eval`, `run_tac`, a macro's body, a configuration), and ends a `by` block at any
word that begins a command, however far it is indented. So nothing is let through that is not known: characters from a
list; no comments, strings or quoted names, which would hide what is in them or swallow what follows; brackets that
match; no word that begins a command or names elaboration-time code; and a first word from the list of tactics. What a
proof rarely needs is refused with it. Behind this, accept.py trusts nothing that the guard let through.
"""

import re
import unicodedata

from core.lean.theorem import GIVEN, NAME

LONGEST = 2000  # characters

# Characters beside printable ASCII and newline: Greek, and the blocks of letters and signs that Lean and Mathlib write
# with. No look-alikes: no Cyrillic, no full-width forms, no blanks but the one, nothing unseen.
BLOCKS = (
    (0x0391, 0x03C9),  # Greek; 0x37E, which looks like a semicolon, lies outside
    (0x2070, 0x209C),  # superscripts, subscripts
    (0x2100, 0x214F),  # ℕ ℝ
    (0x2190, 0x21FF),  # arrows
    (0x2200, 0x22FF),  # ∀ ∧ ≤
    (0x2308, 0x230B),  # ⌈⌉⌊⌋
    (0x27E6, 0x27EB),  # ⟦⟧⟨⟩⟪⟫
    (0x2A00, 0x2AFF),  # ⨅ ⨆
    (0x1D49C, 0x1D537),  # script and Fraktur letters
)
SIGNS = frozenset("⦃⦄¬·×÷±²³¹‖‹›•′″△▸◁▷⋆𝟙𝟘ᵢⱼᵣᵤᵥᵦᵧᵨᵩᵪⁿᵀᶜᵒᵖ")
PAIRS = {")": "(", "]": "[", "}": "{", "⦄": "⦃", "⟩": "⟨", "⟧": "⟦", "⟫": "⟪", "⌉": "⌈", "⌋": "⌊", "›": "‹"}

# Words that begin a command, in Lean or in Mathlib, or open a scope. Refused but behind a name: `Foo.end`.
COMMANDS = frozenset(
    """
    abbrev add_decl_doc alias assert_no_sorry assert_not_exists assert_not_imported attribute axiom axioms
    binder_predicate builtin_dsimproc builtin_initialize builtin_simproc cbv_simproc class coinductive compile_def
    compile_inductive constant count_heartbeats decreasing_by def deprecated deriving docs_to_verso dsimproc
    dsimproc_decl elab elab_rules elab_stx end eval example export expose extend_docs extern
    gen_injective_theorems grind_annotated grind_pattern grind_propagator guard_decl guard_msgs import include
    inductive infix infixl infixr init_quot initialize initialize_simps_projections instance irreducible_def lemma
    library_note local macro macro_rules meta mk_iff_of_inductive_prop mutual namespace noncomputable nonrec
    notation notation3 omit opaque open partial postfix prefix prelude private proof_wanted protected public
    reassoc recall recommended_spelling scoped seal section set_option show_panel_widgets simproc simproc_decl
    simproc_pattern structure suppress_compilation syntax tactic_extension termination_by theorem unif_hint
    universe unsafe unseal unset_option unsuppress_compilation variable variables whatsnew where
    with_weak_namespace
    """.split()
)
# What runs code or another program, searches for minutes, writes or asks the network; namespaces of Lean's own insides.
# Refused as a word, or as the first part of a name.
INSIDES = frozenset(
    """
    auto_prove BaseIO bv_check bv_decide CommandElabM config CoreM count_heartbeats duper EIO Elab find hint IO
    library_search llm MacroM Meta MetaM native observe Parser plausible polyrith says show_term slim_check Syntax
    System TacticM TermElabM trace trace_state try_this unhygienic widget with_panel_widgets
    Lean Std Qq Batteries Aesop Plausible ProofWidgets LeanSearchClient Mathlib _root_
    """.split()
)
# Holes that pass for proofs, what trusts the compiler, and `skip`, which ends our files (theorem.py). Refused as any
# part of a name.
HOLES = frozenset(
    """
    addDecl admit by_elab dbg_sleep dbg_trace dbgSleep dbgTrace dbgTraceIfShared decl_name evalConst evalDecl
    evalExpr evalTerm implemented_by include_str lcAny lcErased lcProof lcUnreachable lcVoid native_decide
    nativeMacro ofReduceBool ofReduceNat panicCore ptrAddrUnsafe reduceBool reduceNat skip sorry sorryAx stop
    trustCompiler unsafeBaseIO unsafeCast unsafeEIO unsafeIO
    """.split()
)
PREFIXES = ("run_", "elab_", "declare_", "register_", "unsafe", "builtin_")
# What a tactic may begin with: Lean's own and Mathlib's, and nothing that looks for tactics in their place.
TACTICS = frozenset(
    """
    abel abel_nf ac_rfl aesop all_goals and_intros any_goals apply apply_assumption apply_fun apply_mod_cast
    apply_rfl apply_rules assumption assumption_mod_cast bound by_cases by_contra by_contra! calc case case' cases
    cases' cases_type change choose classical clear clear_value compute_degree congr constructor continuity
    contradiction contrapose conv convert convert_to decide delta done dsimp eq_refl erw exact exact_mod_cast
    exacts exfalso exists existsi ext field_simp fin_cases finiteness first focus fun_prop funext gcongr
    generalize grind group have haveI induction induction' infer_instance injection injections interval_cases
    intro intros itauto iterate left let letI lia linarith linear_combination match measurability mod_cases module
    next nlinarith nofun nomatch noncomm_ring norm_cast norm_num nth_rewrite nth_rw obtain omega on_goal order
    peel pick_goal positivity push_cast push_neg qify rcases refine refine' rename rename_i repeat repeat' replace
    revert rewrite rfl rfl' right ring ring1 ring_nf rintro rotate_left rotate_right rsuffices rw rw_mod_cast rwa
    set show simp simp_all simp_arith simp_rw simpa solve_by_elim specialize split split_ifs subsingleton subst
    subst_eqs subst_vars suffices swap symm tauto trans transitivity trivial try unfold use wlog zify
    """.split()
)

# Words are cut where any sign outside ASCII stands: in `x²end` Lean sees the word `end`, in `αend` it would not.
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_']*(?:\.[A-Za-z_][A-Za-z0-9_']*)*")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_'])[0-9][0-9_]*[A-Za-z_]")  # 0x1fend is a number and a word
_FIRST = re.compile(r"[\s·({⟨]*([^\W\d][\w]*['!]?)")
_MARKED = re.compile(r"[^\W\d][\w']*[!?]|[^\W\d][\w']+%")  # exact? simp! binop%; 20! is a number's factorial
_SETTING = re.compile(r"\(\s*[^\W\d][\w.']*\s*:=")  # (config := …): Lean evaluates what stands there
_LET_REC = re.compile(r"(?<![\w.'])let\s+rec(?![\w'])")
_PROOF = re.compile(r"(?<![\w.'])by(?![\w'])")


def refused(tactic: str) -> str:
    """Why `tactic` is not let through, in a few words that can be counted; "" where it is."""
    if why := _characters(tactic) or _words(tactic):
        return why
    first = _FIRST.match(tactic)
    if first is None or first[1] not in TACTICS:
        return "no known tactic"
    return "a setting" if _SETTING.search(tactic) else ""


def refused_statement(statement: str) -> str:
    """The same of a theorem's statement: binders, a colon and a type. Nothing in it may be proved or set."""
    if why := _characters(statement) or _words(statement):
        return why
    if ":=" in statement:
        return "a value"
    if _PROOF.search(statement):
        return "a proof"
    return "" if ":" in _outside(statement) else "no type"


def _characters(text: str) -> str:
    if not text.strip():
        return "nothing in it"
    if len(text) > LONGEST:
        return f"over {LONGEST} characters"
    if not all(map(_is_known, text)) or unicodedata.normalize("NFC", text) != text:
        return "an unknown character"
    if "--" in text or "/-" in text or "-/" in text:
        return "a comment"
    if '"' in text or "`" in text or re.search(r"(?<![\w'])'", text.replace(" '' ", "  ")):  # f '' s: a set's image
        return "a quotation"
    if "#" in text or "@[" in text or "$" in text:
        return "a command's sign"
    if _MARKED.search(text.replace("by_contra!", "by_contra")):
        return "a mark behind a word"
    return _brackets(text)


def _is_known(character: str) -> bool:
    code = ord(character)
    if code < 0x7F:
        return code >= 0x20 or character == "\n"
    return character in SIGNS or any(low <= code <= high for low, high in BLOCKS)


def _brackets(text: str) -> str:
    still_open: list[str] = []
    for character in text:
        if character in PAIRS.values():
            still_open.append(character)
        elif character in PAIRS and (not still_open or still_open.pop() != PAIRS[character]):
            return "brackets that do not match"
    return "brackets that do not match" if still_open else ""


def _words(text: str) -> str:
    if _NUMBER.search(text):
        return "a number with letters"
    if _LET_REC.search(text):
        return "a command"
    for match in _WORD.finditer(text):
        parts = match[0].split(".")
        if {NAME, GIVEN}.intersection(parts):
            return "the theorem's own name"
        if HOLES.intersection(parts) or any(part.startswith(PREFIXES) for part in parts):
            return "a hole or code"
        if parts[0] in COMMANDS:
            return "a command"
        if parts[0] in INSIDES:
            return "a hole or code"
    return ""


def _outside(text: str) -> str:
    """What of `text` is in no bracket."""
    depth, kept = 0, ""
    for character in text:
        depth += (character in PAIRS.values()) - (character in PAIRS)
        kept += character if depth == 0 else ""
    return kept
