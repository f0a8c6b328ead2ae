"""Define the task that inspect_ai runs for benchmarks/agreement.py: given messages, one reply, and
the scorer math() for boxed answers or match(numeric=True) for numbers."""

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import match, math
from inspect_ai.solver import generate


@task
def agreement(file: str, boxed: bool) -> Task:
    scorer = math() if boxed else match(numeric=True)
    return Task(dataset=json_dataset(file), solver=generate(), scorer=scorer)
