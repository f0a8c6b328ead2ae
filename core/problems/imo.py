"""IMO-AnswerBench (Luong et al. 2025, arXiv 2511.01846): 400 problems with short answers."""

from core.problems.published import Published

# The commit and the name of the file in QED-Nano's copy could not be looked up when this was written. There are two
# versions of the set: v2 of February 2026 corrected answers. Results say which it was, by these hashes of what
# PROBLEMS=answerbench_v2.csv reads (google-deepmind/superhuman, sha256 275877a9…): ids, statements and answers.
ANSWERBENCH = Published(
    name="imo_answerbench",
    repo="lm-provers/IMOBench-FinalAnswer",
    rows=400,
    licence="CC BY 4.0",
    versions={
        "3b6b61a6a804b23b997e567feb7112bc6f7d2b897071e62cd4d2370b55188cb3": "v2",
        # As readers take the file who do not mind its missing quote (tables.py): "Algebra" is no answer.
        "0396e46f2cc484ffbac0a151672adc86cdacfa287d119bc36a0ff27e1fb7d4bd": "v2, imo-bench-algebra-036 broken",
    },
)
