"""Refuse dangerous tactics before Lean reads them. Tactics are text from a model, and may be
hostile.

Lean runs code while it elaborates (`#eval`, `run_tac`, a macro's body, a configuration). Lean ends
a `by` block at any word that begins a command, even if the word is indented. The guard refuses
unknown characters and unmatched brackets. It refuses comments, strings and quoted names, which
could hide text. It also refuses words that begin a command or take code, searches for tactics, and
known settings whose values are not plain. Lean judges all other text. Two more layers of defence
follow: accept.py does not trust allowed text, and cage.py limits what code can do.
"""

import re
import unicodedata
from collections.abc import Iterable

from labs.lean.theorem import GIVEN, NAME

LONGEST = 2000  # characters

# Allowed characters besides printable ASCII and newline: Greek, and blocks of letters and signs
# that Lean and Mathlib use. Many look-alikes are refused: Cyrillic, full-width forms, blanks other
# than spaces, invisible characters.
BLOCKS = (
    (0x02B0, 0x02B8),  # raised letters
    (0x02E0, 0x02E4),  # raised letters, such as ˣ in Rˣ
    (0x0391, 0x03C9),  # Greek, without 0x37E, which looks like a semicolon
    (0x1D2C, 0x1D6A),  # raised and lowered letters: ᴴ ᵐ ᵢ
    (0x1D9C, 0x1DBF),  # ᶜ ᶠ
    (0x2070, 0x209C),  # superscripts, subscripts
    (0x2100, 0x214F),  # ℕ ℝ
    (0x2190, 0x21FF),  # arrows
    (0x2200, 0x22FF),  # ∀ ∧ ≤
    (0x2308, 0x230B),  # ⌈⌉⌊⌋
    (0x25A0, 0x25FF),  # □ ▸
    (0x27C2, 0x27C2),  # ⟂
    (0x27E6, 0x27EF),  # ⟦⟧⟨⟩⟪⟫⟮⟯
    (0x27F0, 0x297F),  # long arrows, ⥤
    (0x2980, 0x2AFF),  # ⦃⦄ ⧸ ⨅ ⨆
    (0x1D49C, 0x1D56B),  # script, Fraktur and double-struck letters
)
SIGNS = frozenset("¬·×÷±²³¹‖‹›•′″†‡‼⁅⁆⋆⬝⬞⸨⸩ᗮⁿᵣⱼϑϕϖϱϵ")
PAIRS = dict(zip(")]}⦄⟩⟧⟫⟯⁆⌉⌋›⸩", "([{⦃⟨⟦⟪⟮⁅⌈⌊‹⸨", strict=True))

# Words that begin a command, in Lean or in Mathlib, or open a scope. Names may contain them after a
# dot: `Foo.end`.
COMMANDS = frozenset(
    """
    abbrev add_decl_doc alias assert_no_sorry assert_not_exists assert_not_imported attribute \
axiom axioms
    binder_predicate builtin_dsimproc builtin_initialize builtin_simproc cbv_simproc class \
coinductive compile_def
    compile_inductive constant count_heartbeats decreasing_by def deprecated deriving \
docs_to_verso dsimproc
    dsimproc_decl elab elab_rules elab_stx end example export expose extend_docs extern
    gen_injective_theorems grind_annotated grind_pattern grind_propagator guard_decl guard_msgs \
import include
    inductive infix infixl infixr init_quot initialize initialize_simps_projections instance \
irreducible_def lemma
    library_note local macro macro_rules meta mk_iff_of_inductive_prop mutual namespace \
noncomputable nonrec
    notation notation3 omit opaque open partial postfix prefix prelude private proof_wanted \
protected public
    reassoc recall recommended_spelling scoped seal section set_option show_panel_widgets simproc \
simproc_decl
    simproc_pattern structure suppress_compilation syntax tactic_extension termination_by theorem \
unif_hint
    universe unsafe unseal unset_option unsuppress_compilation variable variables whatsnew where
    with_weak_namespace
    """.split()
)
# Tactics that take code, run another program, wait or print, and namespaces of Lean's internals.
# They are refused as a word and as the first part of a name.
INSIDES = frozenset(
    """
    auto_prove bv_check bv_decide duper library_search llm native observe plausible polyrith \
show_term sleep
    sleep_heartbeats slim_check trace trace_state try_this unhygienic widget with_panel_widgets
    Aesop Lean LeanSearchClient Plausible ProofWidgets Qq System
    """.split()
)
# Holes that look like proofs, trust in the compiler, effects and their monads, and `skip`, which
# ends our files (theorem.py). They are refused as any part of a name.
HOLES = frozenset(
    """
    addDecl admit allocprof BaseIO by_elab CommandElabM CoreM dbg_sleep dbg_trace dbgSleep \
dbgTrace dbgTraceIfShared
    decl_name EIO Elab eprintln evalConst evalDecl evalExpr evalTerm implemented_by include_bytes \
include_str IO lcAny
    lcErased lcProof lcUnreachable lcVoid MacroM Meta MetaM native_decide nativeMacro \
ofReduceBool ofReduceNat panic
    panicCore Parser println ptrAddrUnsafe reduceBool reduceNat skip sorry sorryAx stop Syntax \
Tactic TacticM TermElabM
    timeit trustCompiler unsafeBaseIO unsafeCast unsafeEIO unsafeIO
    """.split()
)
# refused beginnings of a word or a dotted name
PREFIXES = ("run_", "elab_", "declare_", "register_", "builtin_")
# Tactics that take settings: after them, Lean runs the value in `(name := value)` as code. Other
# values are arguments.
SETTABLE = frozenset(
    """
    abel abel1 abel_nf ac_nf ac_rfl aesop aesop_cat aesop_graph apply apply_assumption \
apply_rewrite apply_rules
    apply_rw assumption bound bv_normalize bv_omega by_cases calc case cases cases' cbv cc change \
choose clear
    compute_degree congr constructor continuity contrapose conv conv_lhs conv_rhs convert \
convert_to cse cutsat
    data_synth decide decide_cbv dsimp eapply econstructor enat_to_nat erw exact exact_mod_cast \
exacts exfalso exists
    existsi ext ext1 extract_lets fapply fconstructor field field_simp fin_omega finiteness first \
fun_cases
    fun_induction fun_prop gcongr generalize generalize_proofs grewrite grind grobner group grw \
have haveI impossible
    induction induction' infer_instance injection interval_cases intro itauto left let \
let_to_have letFun_to_let letI
    lia lift_lets linarith match measurability module monicity move_add move_mul mspec mvcgen \
nlinarith noncomm_ring
    nontriviality norm_cast norm_cast0 norm_num norm_num1 nth_grewrite nth_rewrite nth_rw obtain \
omega order peel
    polyrith positivity pull pull_cast push push_cast push_neg qify rcases rcongr reduce \
reduce_mod_char refine refine'
    rename repeat replace revert rewrite rfl rify right ring ring1 ring1_nf ring_nf rintro rw \
rw_mod_cast rwa set show
    simp simp_all simp_all_arith simp_arith simp_intro simp_rw simp_wf simpa solve_by_elim \
specialize split split_ifs
    subsingleton subst suffices sym symm tauto tfae_finish trans trivial trunc_cases try unfold \
unfold_let use
    with_reducible wlog zify
    """.split()
)
# settings whose value is a tactic or names, not code
UNRUN = frozenset(("disch", "discharger", "rule_sets"))

# Any sign outside ASCII ends a word: Lean reads the word `end` in `x²end`, but not in `αend`.
# `h₁.end` is one word.
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_']*(?:[₀-₉]*\.[A-Za-z_][A-Za-z0-9_']*)*")
_DOT = re.compile(r"[₀-₉]*\.")
# 0x1fend is a number and a word, and 1e-3 is a number. hδ1_pos is a word. λ, Π and Σ can't be
# letters of a word.
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_'α-κμ-ωΑ-ΟΡΤ-Ωϑϕϖϱϵ])[0-9][0-9_]*(?!e[+-]?[0-9]+(?![\w'.]))[A-Za-z_]"
)
_FIRST = re.compile(r"[\s·({]*([a-z]\w*)")
# matches exact? and binop%, but not xs.head? or getElem?_eq_none
_MARKED = re.compile(r"(?<![\w.'])[^\W\d][\w']*\?(?![\w'])|[^\W\d][\w']+%")
_QUOTE = re.compile(r"(?<![\w'∑∏⨆⨅])'|[∑∏⨆⨅]'[\w']")  # does not match x' or ∑' n
_SETTING = re.compile(r"\(\s*([^\W\d][\w.']*)\s*:=")
# Allowed values of a setting, such as true, 5, .pos [2], {decide := true}
_PLAIN = r"(?:true|false|[0-9]+|\[[0-9,\s]*\]|\.[a-z]\w*(?:\s*\[[0-9,\s]*\])?)"
_VALUE = re.compile(rf"\s*(?:{_PLAIN}|\{{(?:\s*[a-z]\w*\s*:=\s*{_PLAIN}\s*,?)*\s*\}})\s*")
_HEAD = re.compile(r"(?<![A-Za-z0-9_.'])([A-Za-z_][A-Za-z0-9_']*)[!?*]*$")
_FLAG = re.compile(r"[+-]\s*[^\W\d][\w.']*\s*$")
_LET_REC = re.compile(r"(?<![A-Za-z0-9_.'])let\s+rec(?![\w'])")
_PROOF = re.compile(r"(?<![A-Za-z0-9_.'])by(?![\w'])")


def refused(tactic: str) -> str:
    """Return why a tactic is refused, as one of a few fixed texts, or "" if it is allowed."""
    if why := _characters(tactic) or _words(tactic):
        return why
    first = _FIRST.match(tactic)
    if first is None:
        return "no tactic"
    if first[1] == "hint":  # unlike exact?, it has no mark
        return "a search for tactics"
    return "a setting" if any(map(_is_code, _SETTING.finditer(tactic))) else ""


def refused_statement(statement: str) -> str:
    """Return why a statement is refused, or "". It needs a type and may have binders, but not
    proofs or values."""
    if why := _characters(statement) or _words(statement):
        return why
    if ":=" in statement:
        return "a value"
    if _PROOF.search(statement):
        return "a proof"
    return "" if any(statement[place] == ":" for place in outside(statement)) else "no type"


def refused_proof(statement: str, tactics: Iterable[str]) -> str:
    """Return why the statement or one of the tactics is refused, or "" if all are allowed."""
    return refused_statement(statement) or next(filter(None, map(refused, tactics)), "")


def _characters(text: str) -> str:
    if not text.strip():
        return "nothing in it"
    if len(text) > LONGEST:
        return f"over {LONGEST} characters"
    if not all(map(_is_known, text)) or unicodedata.normalize("NFC", text) != text:
        return "an unknown character"
    if "--" in text or "/-" in text or "-/" in text:
        return "a comment"
    # "f '' s" is the image of a set
    if '"' in text or "`" in text or _QUOTE.search(text.replace(" '' ", "  ")):
        return "a quotation"
    if "#" in text or "@[" in text or "$" in text.replace("<$>", "").replace(" $ ", ""):
        return "a command's sign"
    if _MARKED.search(text):
        return "a word with a mark"
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
        parts = _DOT.split(match[0].removeprefix("_root_."))
        if {NAME, GIVEN}.intersection(parts):
            return "the theorem's own name"
        if HOLES.intersection(parts) or any(part.startswith("unsafe") for part in parts):
            return "a hole or code"
        if parts[0] in COMMANDS:
            return "a command"
        if parts[0] in INSIDES or parts[0].startswith(PREFIXES):
            return "a hole or code"
    return ""


def _is_code(setting: re.Match[str]) -> bool:
    """Return whether Lean may run the value of a setting `(name := value)` as code. The text's
    brackets must match."""
    text, name = setting.string, setting[1]
    depth, end = 1, setting.end()
    while depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    if _VALUE.fullmatch(text, setting.end(), end - 1):
        return False
    if name.partition(".")[0] == "config":
        return True
    before = text[: setting.start()].rstrip()
    # skip other settings, as in simp (a := 1) +b (c := …)
    while before.endswith(")") or _FLAG.search(before):
        if flag := _FLAG.search(before):
            before = before[: flag.start()].rstrip()
            continue
        depth, begin = 1, len(before) - 1
        while depth:
            begin -= 1
            depth += (before[begin] == ")") - (before[begin] == "(")
        before = before[:begin].rstrip()
    head = _HEAD.search(before)
    return bool(head and head[1] in SETTABLE) and name not in UNRUN


def outside(text: str) -> list[int]:
    """Return the indices of characters outside all brackets. These include a bracket that closes an
    outermost pair."""
    depth, places = 0, []
    for place, sign in enumerate(text):
        depth = max(0, depth - (sign in PAIRS))
        depth += sign in PAIRS.values()
        if not depth:
            places.append(place)
    return places
