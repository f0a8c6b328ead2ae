"""Define RSA's prompts in other words, to measure how the embedded model handles instructions that
it never saw.

An agent wrote the first eight wordings in the styles of eight authors. It saw neither the
training's grammar (labs/demo/words.py) nor the project's prompts. The grammar's author did
not use these wordings, with one exception. The wording "teacher" stopped an earlier model from
forgetting carries, so the grammar asks for care in many ways. The next three wordings are older
than the grammar, and the grammar's author knew them. The wording "exercise" avoids the usual words
on purpose. Another agent wrote the last ten wordings, as teachers, examiners and reviewers would.
This agent also saw neither the grammar nor the prompts."""

REWORDED = {
    "researcher": {
        "SOLVE": """\
Please reason step by step, and put your final answer within \\boxed{{}}.

{problem}""",
        "AGGREGATE": """\
Below is a math question together with {count} reasoning attempts sampled from a language model. \
Some of the \
attempts may contain mistakes, and it is possible that none of them is fully right. Check the \
attempts against \
each other, keep the steps that hold up, discard those that do not, and write a single improved, \
self-contained \
solution. Put your final answer within \\boxed{{}}.

Question:
{problem}

Attempts:
{candidates}

Improved solution:""",
    },
    "harness": {
        "SOLVE": """\
Problem:
{problem}

Solve the problem above. The last line of your response should be of the form Answer: \
\\boxed{{ANSWER}} (without \
quotes) where ANSWER is the result.

Solution:""",
        "AGGREGATE": """\
### Problem
{problem}

### Model responses (n={count})
{candidates}

### Task
The responses above were generated independently and are not guaranteed to be correct. Synthesize \
them into one \
high-quality response to the problem. Critically evaluate the information they contain; do not \
simply copy one \
of them and do not go with the majority without verifying it. The last line of your response \
should be of the \
form Answer: \\boxed{{ANSWER}}.

### Response
""",
    },
    "teacher": {
        "SOLVE": """\
Here is an exercise for you. Work through it carefully and show all of your work, explaining why \
each step is \
justified, as you would on an exam. When you are finished, check your result and write it in a \
box, like this: \
\\boxed{{your answer}}.

Exercise: {problem}""",
        "AGGREGATE": """\
I gave my class the following exercise:

{problem}

Here is the work that {count} students handed in. I have not graded it yet, so any of these \
papers could have \
errors in it.

{candidates}

Using whatever is good in the students' work and correcting whatever is wrong, write out a full \
model answer \
that I could hand back to the class. Show every step from beginning to end, and write the final \
result in a \
box, like this: \\boxed{{your answer}}.""",
    },
    "terse": {
        "SOLVE": """\
{problem}
Final answer in \\boxed{{}}.""",
        "AGGREGATE": """\
{candidates}

^ {count} drafts, maybe wrong. Merge into one correct full solution of: {problem}
Final answer in \\boxed{{}}.""",
    },
    "chatty": {
        "SOLVE": """\
Hey! Could you help me out with this math problem? I've been stuck on it for a while :)

{problem}

Take your time and walk me through how you get there, and please stick the final answer in \
\\boxed{{}} at the \
end so it's easy for me to find. Thanks a lot!""",
        "AGGREGATE": """\
Hi again! So I asked around about this math problem and got {count} different write-ups back, but \
honestly I \
don't know which of them I can trust, some of them (or even all of them?) might be off somewhere. \
This is what \
people sent me:

{candidates}

And this is the problem they were all trying to solve:

{problem}

Could you look through what they did, take the best ideas, fix anything that's broken, and give \
me one proper \
solution from start to finish? Please put the final answer in \\boxed{{}} like before. Thank \
you!!""",
    },
    "appendix": {
        "SOLVE": """\
You are an expert in competition mathematics. You will be presented with a mathematical problem. \
Derive its \
solution rigorously, stating all intermediate results on which the derivation depends. Conclude \
your response \
with the final answer enclosed in \\boxed{{}}; only the content of the last such expression will \
be evaluated.

<problem>
{problem}
</problem>""",
        "AGGREGATE": """\
You are an expert in competition mathematics. You will be presented with a mathematical problem \
and a set of \
{count} candidate solutions produced independently. The candidates may be incomplete, mutually \
inconsistent, or \
incorrect, and agreement among them does not constitute evidence of correctness.

Your objective is to compose a refined solution that is superior to each individual candidate. To \
this end, \
identify valid partial results, locate and rectify errors, and combine complementary lines of \
reasoning where \
appropriate. Should every candidate prove unsound, a different approach is to be pursued. The \
refined solution \
must be complete and intelligible without reference to the candidates, and must conclude with the \
final answer \
enclosed in \\boxed{{}}.

<problem>
{problem}
</problem>

<candidates>
{candidates}
</candidates>""",
    },
    "nonnative": {
        "SOLVE": """\
Please to solve the next mathematical task with the detailed explanation. The answer must be \
written inside of \
\\boxed{{}} in the end.
Task: {problem}""",
        "AGGREGATE": """\
Task: {problem}

For this task we have already {count} variants of solution, but in them can be the mistakes:

{candidates}

Please read attentively all the variants, find which parts are right and which are not, and on \
base of them \
make one more good solution, full and correct. The answer must be written inside of \\boxed{{}} \
in the end.""",
    },
    "product": {
        "SOLVE": """\
# Role
You are MathAssist, a helpful and accurate math tutor.

# Instructions
- Understand what the user is asking before you start.
- Solve the question **step by step**, using LaTeX for formulas.
- Double-check calculations.
- Always finish with **one** final answer inside `\\boxed{{}}`.

# User question
{problem}""",
        "AGGREGATE": """\
# Role
You are MathAssist, a senior math reviewer. You turn rough drafts into one polished answer for \
the user.

# User question
{problem}

# Drafts
There are {count} drafts. They were **not** verified and may be wrong.

{candidates}

# Instructions
1. Compare the drafts and note where they disagree.
2. Re-check the key steps yourself.
3. Reuse the correct parts and repair or drop the rest.
4. Write **one** complete step-by-step solution. Do not mention the drafts.

# Output format
- LaTeX for formulas
- Final answer inside `\\boxed{{}}` on the last line""",
    },
    "people": {
        "SOLVE": """\
Solve this math problem carefully:

{problem}

Show your work and end with \\boxed{{}}.""",
        "AGGREGATE": """\
{problem}

I have {count} proposed solutions from different people:

{candidates}

Please study them, find any errors, and give me the correct full solution with the final answer \
in \\boxed{{}}.""",
    },
    "trust": {
        "SOLVE": """\
{problem}

Please write out your reasoning, then the answer as \\boxed{{}}.""",
        "AGGREGATE": """\
Here is a problem:
{problem}

These {count} solutions were proposed. Not all of them can be trusted.

{candidates}

Taking what is right from each, write the solution again without mistakes. The result goes into \
\\boxed{{}}.""",
    },
    "exercise": {
        "SOLVE": """\
{problem}

Please work through this exercise one product at a time. State your result in \\boxed{{}} at the \
very end.""",
        "AGGREGATE": """\
Exercise: {problem}

Other people have already tried this. Their {count} responses are given here and might be flawed.

{candidates}

Using these responses where they help, work out the most reliable answer and write it up in full, \
ending with \
\\boxed{{}}.""",
    },
    "oneline": {
        "SOLVE": """\
{problem} Give the final answer in \\boxed{{}}.""",
        "AGGREGATE": """\
Problem: {problem}

{count} tries, some maybe wrong:

{candidates}

Write one better full solution. Final answer in \\boxed{{}}.""",
    },
    "examiner": {
        "SOLVE": """\
INSTRUCTIONS TO CANDIDATES

Answer the question below. All necessary working must be shown: marks are awarded for method as \
well as for \
accuracy, and a correct answer with no supporting working may receive no credit. Answers obtained \
from \
decimal approximation alone, or by spotting a pattern without justification, will not be \
accepted. Leave \
your result in exact form unless the question states otherwise. You are advised to read the \
question twice \
before beginning, to define every symbol you introduce, and to use any remaining time to check \
your \
arithmetic and to confirm that your result satisfies every condition given.

QUESTION

{problem}

Write your final answer on the last line of your script, inside \\boxed{{}}.

END OF QUESTIONS""",
        "AGGREGATE": """\
INSTRUCTIONS TO THE SENIOR EXAMINER

The scripts of {count} candidates for a single question are reproduced below. They have not been \
marked. Any\
 number of them, including all of them, may be in error, and agreement between scripts is not \
evidence of \
correctness.

QUESTION

{problem}

SCRIPTS

{candidates}

TASK

Prepare the model solution. Credit sound method wherever you find it, reject steps that are \
unsupported, and\
 supply whatever working is missing. Your model solution must stand alone and must not refer to \
the scripts.\
 State the final answer on the last line in \\boxed{{}}.""",
    },
    "buddy": {
        "SOLVE": """\
hey! got a fun one for you, it's from some maths contest and it's been bugging me all weekend:

{problem}

can you walk me through it? no rush, just talk it out the way you'd explain it to a friend over \
coffee. oh \
and pop the final answer in \\boxed{{}} at the end so i can find it, thanks!!""",
        "AGGREGATE": """\
ok so me and some mates had a go at this one:

{problem}

we ended up with {count} write-ups and honestly no idea which (if any) are right lol. here they are:

{candidates}

could you have a look, nick whatever's good, bin the rubbish, and write up one proper solution \
start to \
finish? stick the answer in \\boxed{{}} at the end. cheers""",
    },
    "sections": {
        "SOLVE": """\
# Role

You are an experienced olympiad coach.

## Problem

{problem}

## What a good response contains

1. **Plan** - a sentence or two on the approach and why it should work.
2. **Derivation** - each step follows from the one before; lemmas are proved, not quoted from \
memory.
3. **Verification** - test the result by a second, independent route (small cases, substitution, \
a parity or\
 size argument).
4. **Answer** - exactly one value, written as `\\boxed{{}}` with the value inside.

## Please avoid

- Guessing from the first few terms
- "It is clear that" where it isn't
- Several alternative answers""",
        "AGGREGATE": """\
# Role

You are an experienced olympiad coach writing the official solution.

## Problem

{problem}

## Attempts from the squad ({count})

> These are unmarked. Treat every claim in them as unproved.

{candidates}

## Deliverable

1. **Compare** - where do the attempts part ways, and who is right at that point?
2. **Solution** - a single, complete, corrected solution that could be printed without the \
attempts beside \
it.
3. **Answer** - one value in `\\boxed{{}}`.""",
    },
    "tagged": {
        "SOLVE": """\
<task>
  <type>competition mathematics</type>
  <statement>
{problem}
  </statement>
  <requirements>
    <item>Reason in full before committing to a result.</item>
    <item>Simplify the result as far as possible.</item>
    <item>Finish with the result inside \\boxed{{}}.</item>
  </requirements>
</task>""",
        "AGGREGATE": """\
<task>
  <type>synthesis</type>
  <statement>
{problem}
  </statement>
  <drafts number="{count}" reliability="unknown">
{candidates}
  </drafts>
  <requirements>
    <item>Any draft may contain mistakes; use only what you can justify.</item>
    <item>Produce one complete solution that improves on all of the drafts.</item>
    <item>Finish with the result inside \\boxed{{}}.</item>
  </requirements>
</task>""",
    },
    "sceptic": {
        "SOLVE": """\
Trust no shortcut, double-check every line, and only then commit to an answer in \\boxed{{}}: \
{problem}""",
        "AGGREGATE": """\
Here is a problem: {problem}

Below are {count} attempted answers to it; assume each one is guilty until proven innocent.

{candidates}

Cross-examine them, redo every calculation you intend to keep, then give one complete solution of \
your own \
with the verified answer in \\boxed{{}}.""",
    },
    "homeroom": {
        "SOLVE": """\
Good morning! Today's challenge problem is on the board:

    {problem}

A word of warning before you pick up your pencil. A student in my earlier class got this one \
wrong, not \
because she lacked ideas, but because she hurried: she missed a case and never went back to look. \
Please \
don't do the same. Show all your working, neatly, so that a classmate who was away today could \
follow it. \
When you think you have finished, go back to the top, re-read what the question is really asking \
for, and \
check that this is what you have found. Then draw a box around your final answer, like so: \
\\boxed{{}}.""",
        "AGGREGATE": """\
Good morning! Yesterday the class worked on this challenge problem:

    {problem}

I collected {count} pieces of homework, and I've pinned them up for you here:

{candidates}

I haven't marked any of them yet. Some will have slips in them, and it's quite possible that \
nobody got it. \
Your job is to write the version I'll hand out to everybody: complete, tidy, correct, with all \
the working \
shown and no gaps for anyone to fall into. Learn from what your classmates did well and quietly \
mend what \
they did badly. Box the final answer: \\boxed{{}}.""",
    },
    "referee": {
        "SOLVE": """\
Provide a rigorous solution to the following problem, to the standard expected by a mathematics \
journal.

{problem}

Prove each step. Name every theorem that you invoke and verify that its hypotheses hold. Treat \
degenerate \
and boundary cases explicitly. If the quantity sought is an extremum, establish both the bound \
and its \
attainment. The concluding value is to appear in \\boxed{{}}.""",
        "AGGREGATE": """\
You are refereeing {count} manuscripts, each of which claims to resolve the problem stated here.

{problem}

The manuscripts follow. None has been peer reviewed and their claims may be false.

{candidates}

Having examined them critically, set out a definitive solution: one self-contained argument, with \
every step\
 proved and every gap in the manuscripts either closed or avoided. The concluding value is to \
appear in \
\\boxed{{}}.""",
    },
    "pipeline": {
        "SOLVE": """\
INPUT:
{problem}

OUTPUT FORMAT:
- free-form reasoning, any length
- last line: ANSWER = \\boxed{{}} (fill in the braces; number or closed-form expression only, no \
units, no \
words)

The last line gets parsed by a script, so keep to the format.""",
        "AGGREGATE": """\
INPUT:
{problem}

PREVIOUS RUNS (n={count}, not validated, may be wrong):
{candidates}

JOB:
Merge the above into one complete, corrected solution. Do not simply take a majority vote. If \
every run \
failed, solve from scratch.

OUTPUT FORMAT:
- the full solution
- last line: ANSWER = \\boxed{{}} (fill in the braces; number or closed-form expression only)

The last line gets parsed by a script, so keep to the format.""",
    },
    "jury": {
        "SOLVE": """\
The Problem Selection Committee invites you to submit a solution to the problem below.

~~~
{problem}
~~~

Submissions are judged by a jury on a scale of 0 to 7. Full points go only to solutions that are \
complete \
and free of error; partial points may be given for significant progress. Calculators are not \
permitted. \
Contestants are reminded that several past entrants lost points on this problem by overlooking a \
condition \
in the statement, so please verify your result against every one of them before submission. Mark \
your final \
answer clearly with \\boxed{{}}.

Good luck!""",
        "AGGREGATE": """\
To: Jury coordinator
From: Problem Selection Committee

We need an official solution for the booklet. The problem:

~~~
{problem}
~~~

We have received {count} submissions from contestants, attached. They have not yet been scored, \
and we \
cannot vouch for any of them.

~~~
{candidates}
~~~

Kindly draft a single solution that would earn 7 out of 7 from the strictest coordinator. You may \
borrow \
ideas from the submissions provided you have verified them yourself. Mark the final answer with \
\\boxed{{}}.""",
    },
}
