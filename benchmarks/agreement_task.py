"""Define the task that inspect_ai runs for benchmarks/agreement.py: given messages, one reply,
match(numeric=True)."""

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def agreement(file: str) -> Task:
    return Task(dataset=json_dataset(file), solver=generate(), scorer=match(numeric=True))
