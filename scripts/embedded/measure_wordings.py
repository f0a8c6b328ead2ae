"""RSA's prompts in the words of others, to measure what the embedded model makes of instructions it never saw.

The first eight were written by an agent that was shown neither the training's grammar (scripts/embedded/words.py) nor
the project's prompts, as eight different authors would; the grammar was written without a look at them. The last three
are older than the grammar, whose author knew them; "exercise" avoids the usual words on purpose.
"""

REWORDED = {
    "researcher": {
        "SOLVE": """\
Please reason step by step, and put your final answer within \\boxed{{}}.

{problem}""",
        "AGGREGATE": """\
Below is a math question together with {count} reasoning attempts sampled from a language model. Some of the \
attempts may contain mistakes, and it is possible that none of them is fully right. Check the attempts against \
each other, keep the steps that hold up, discard those that do not, and write a single improved, self-contained \
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

Solve the problem above. The last line of your response should be of the form Answer: \\boxed{{ANSWER}} (without \
quotes) where ANSWER is the result.

Solution:""",
        "AGGREGATE": """\
### Problem
{problem}

### Model responses (n={count})
{candidates}

### Task
The responses above were generated independently and are not guaranteed to be correct. Synthesize them into one \
high-quality response to the problem. Critically evaluate the information they contain; do not simply copy one \
of them and do not go with the majority without verifying it. The last line of your response should be of the \
form Answer: \\boxed{{ANSWER}}.

### Response
""",
    },
    "teacher": {
        "SOLVE": """\
Here is an exercise for you. Work through it carefully and show all of your work, explaining why each step is \
justified, as you would on an exam. When you are finished, check your result and write it in a box, like this: \
\\boxed{{your answer}}.

Exercise: {problem}""",
        "AGGREGATE": """\
I gave my class the following exercise:

{problem}

Here is the work that {count} students handed in. I have not graded it yet, so any of these papers could have \
errors in it.

{candidates}

Using whatever is good in the students' work and correcting whatever is wrong, write out a full model answer \
that I could hand back to the class. Show every step from beginning to end, and write the final result in a \
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

Take your time and walk me through how you get there, and please stick the final answer in \\boxed{{}} at the \
end so it's easy for me to find. Thanks a lot!""",
        "AGGREGATE": """\
Hi again! So I asked around about this math problem and got {count} different write-ups back, but honestly I \
don't know which of them I can trust, some of them (or even all of them?) might be off somewhere. This is what \
people sent me:

{candidates}

And this is the problem they were all trying to solve:

{problem}

Could you look through what they did, take the best ideas, fix anything that's broken, and give me one proper \
solution from start to finish? Please put the final answer in \\boxed{{}} like before. Thank you!!""",
    },
    "appendix": {
        "SOLVE": """\
You are an expert in competition mathematics. You will be presented with a mathematical problem. Derive its \
solution rigorously, stating all intermediate results on which the derivation depends. Conclude your response \
with the final answer enclosed in \\boxed{{}}; only the content of the last such expression will be evaluated.

<problem>
{problem}
</problem>""",
        "AGGREGATE": """\
You are an expert in competition mathematics. You will be presented with a mathematical problem and a set of \
{count} candidate solutions produced independently. The candidates may be incomplete, mutually inconsistent, or \
incorrect, and agreement among them does not constitute evidence of correctness.

Your objective is to compose a refined solution that is superior to each individual candidate. To this end, \
identify valid partial results, locate and rectify errors, and combine complementary lines of reasoning where \
appropriate. Should every candidate prove unsound, a different approach is to be pursued. The refined solution \
must be complete and intelligible without reference to the candidates, and must conclude with the final answer \
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
Please to solve the next mathematical task with the detailed explanation. The answer must be written inside of \
\\boxed{{}} in the end.
Task: {problem}""",
        "AGGREGATE": """\
Task: {problem}

For this task we have already {count} variants of solution, but in them can be the mistakes:

{candidates}

Please read attentively all the variants, find which parts are right and which are not, and on base of them \
make one more good solution, full and correct. The answer must be written inside of \\boxed{{}} in the end.""",
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
You are MathAssist, a senior math reviewer. You turn rough drafts into one polished answer for the user.

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

Please study them, find any errors, and give me the correct full solution with the final answer in \\boxed{{}}.""",
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

Taking what is right from each, write the solution again without mistakes. The result goes into \\boxed{{}}.""",
    },
    "exercise": {
        "SOLVE": """\
{problem}

Please work through this exercise one product at a time. State your result in \\boxed{{}} at the very end.""",
        "AGGREGATE": """\
Exercise: {problem}

Other people have already tried this. Their {count} responses are given here and might be flawed.

{candidates}

Using these responses where they help, work out the most reliable answer and write it up in full, ending with \
\\boxed{{}}.""",
    },
}
